"""The directory of people as surfaces are told of it, and what a person of the monitor may see (M66, M67)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import narval
from narval.ask.asker import Asker
from narval.core.errors import WorkRefusedError
from narval.surfaces.python.agent import Agent
from tests.ask.work_home import PURCHASE, home_with
from tests.surfaces.cli.command_line import narval as command

PEOPLE = """
[people.ann]
name = "Ann Lee"
login = "alee"
roles = ["director"]
web = "operator"
[people.alee]
roles = ["approver"]
[roles.director]
above = ["approver"]
[admin]
people = ["ann"]
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = home_with(tmp_path, PURCHASE)
    (made / "etc" / "people.toml").write_text(PEOPLE)
    return made


def on_the_web(agent: Agent, name: str) -> None:
    agent.asker = Asker("root", os.geteuid(), "socket").acting_as(name, owner=os.geteuid(), session="7")


def test_M66_people_are_listed_with_their_roles_and_rights(home: Path) -> None:
    (home / "etc" / "narval.toml").write_text('timezone = "Europe/Paris"\n')
    with narval.open(home) as agent:
        ann, alee = agent.ask("people")
        digest = ann.pop("directory")
        assert ann == {
            "person": "ann", "name": "Ann Lee", "login": "alee", "roles": ["director", "approver"],
            "web": "operator", "chat": [], "zone": "Europe/Paris", "quiet": "", "away": None, "admin": True,
        }  # fmt: skip
        assert (alee["web"], alee["admin"], alee["directory"]) == ("person", False, digest)
        (home / "etc" / "people.toml").write_text(PEOPLE.replace('"operator"', '"reader"'))
        agent.ask("reload")
        assert [(row["web"], row["directory"] != digest) for row in agent.ask("people")] == [
            ("reader", True),
            ("person", True),
        ]


def test_P19_who_is_away_is_listed_and_whoever_acts_instead_is_told_for_whom(home: Path) -> None:
    away = '[people.cleo]\naway = { to = 2999-01-05, instead = "ann" }\nroles = ["buyer"]\n'
    (home / "etc" / "people.toml").write_text(f"{away}{PEOPLE}")
    (home / "recipes" / "w.xml").write_text(
        '<work group="w" name="buy"><title>Buy?</title><for roles="buyer"/></work>'
    )
    with narval.open(home) as agent:
        assert [row["away"] for row in agent.ask("people")] == [
            {"from": None, "to": "2999-01-05", "instead": "ann", "now": True},
            None,
            None,
        ]
        agent.ask("start", name="w.buy")
        agent.until_idle()
        on_the_web(agent, "ann")
        (row,) = agent.ask("worklist")
        assert row["right"] == {"role": "buyer", "for": "cleo"}
    assert " to 2999-01-05, ann instead" in command(home, "people").output
    assert "for cleo, who is away" in command(home, "work", "--as", "ann").output


def test_P16_without_a_file_there_is_the_owner_who_may_do_everything() -> None:
    with narval.open(None) as agent:
        (owner,) = agent.ask("people")
    assert (owner["person"], owner["web"], owner["admin"]) == (owner["login"], "operator", True)


def test_M67_a_person_of_the_web_is_known_by_name_and_the_session_is_recorded(home: Path) -> None:
    with narval.open(home) as agent:
        item = agent.ask("start", name="purchase.approve", elements=[b"<request what='a desk'/>"])["eid"]
        on_the_web(agent, "ann")
        agent.ask("claim", item=item)
        on_the_web(agent, "alee")
        with pytest.raises(WorkRefusedError, match="claimed by ann"):
            agent.ask("answer", item=item, outcome="approve")
        on_the_web(agent, "ann")
        agent.ask("answer", item=item, outcome="approve")
        acts = [row for row in agent.ask("work_log", item=item) if row.get("session")]
        assert [
            (row["did"], row["by"], row.get("actor", ""), row["way"], row["session"]) for row in acts
        ] == [
            ("Claimed", "ann", "", "web", "7"),
            ("TurnedAway", "alee", "", "web", "7"),
            ("ItemAnswered", "ann", "", "web", "7"),
        ]
        assert len(agent.memory("decision[@way='web'][@by='ann']")) == 1


def test_M67_who_is_nobody_on_the_web_sees_nothing_though_the_owner_of_the_home_asks(home: Path) -> None:
    with narval.open(home) as agent:
        item = agent.ask("start", name="purchase.approve", elements=[b"<request what='a desk'/>"])["eid"]
        on_the_web(agent, "eve")
        for method, arguments in (("worklist", {}), ("work_item", {"item": item}), ("renew", {"run": item})):
            with pytest.raises(WorkRefusedError, match="eve"):
                agent.ask(method, **arguments)
