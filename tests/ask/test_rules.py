"""The rules of the home are told, with how often each counted (F10)."""

from __future__ import annotations

from pathlib import Path

import pytest

import narval
from narval.core.errors import RequestError
from tests.calls.test_rules import ANSWERS, ASKS, home, play

__all__ = ["home"]


def test_F10_rules_are_told_with_how_often_each_counted(home: Path) -> None:
    (home / "etc/trust.toml").write_text(f'[secret]\nhealth = "note"\n{ANSWERS}{ASKS}')
    with narval.open(home, by="ann") as agent:
        play(agent, "answers")
        play(agent, "obeys")
        play(agent, "obeys")
        answer = agent.ask("rules")
        assert answer["secret"] == [{"name": "health", "match": "note"}]
        assert [(rule["line"], rule["then"], rule["calls"]) for rule in answer["rules"]] == [
            (3, "allow", 1),
            (11, "ask", 2),
        ]
        assert answer["rules"][0]["to"] == "letter[@to=$from/@from]"
        assert answer["since"] <= answer["rules"][0]["last"] <= answer["rules"][1]["last"]
        (home / "etc/trust.toml").write_text(ANSWERS + ASKS)
        agent.ask("reload")
        assert [rule["calls"] for rule in agent.ask("rules")["rules"]] == [1, 2], "wherever they stand"


def test_F10_rules_that_may_be_about_an_action_or_a_definition(home: Path) -> None:
    (home / "etc/trust.toml").write_text(ANSWERS + ASKS)
    with narval.open(home, by="ann") as agent:
        named = {
            name: len(agent.ask("rules", name=name)["rules"]) for name in ("m.send", "w.answers", "w.obeys")
        }
        assert named == {"m.send": 2, "w.answers": 2, "w.obeys": 1}
        with pytest.raises(RequestError, match=r"no action or definition 'm.sent'; did you mean 'm.send'"):
            agent.ask("rules", name="m.sent")


def test_a_home_without_the_file_has_no_rules(home: Path) -> None:
    (home / "etc/trust.toml").unlink()
    with narval.open(home, by="ann") as agent:
        answer = agent.ask("rules")
        assert (answer["file"], answer["rules"], answer["faults"]) == (None, [], [])
