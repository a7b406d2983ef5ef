"""Reminders end to end: set in words, told at their time, again and again, put off, forgotten (C6)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from narval.ask.asker import CHAT, Asker
from narval.core.errors import RequestError
from narval.files.shipped import shipped
from narval.surfaces.python.agent import Agent
from tests.daemon.home_in_time import HomeInTime

PEOPLE = """[people.ann]
login = "ann"
web = "person"
[people.ben]
login = "ben"
web = "person"
zone = "America/New_York"
[people.olga]
login = "olga"
web = "operator"
"""
NOTIFY = '<memory><notify name="own" way="command" command="tee -a told"/></memory>'


def home_at(folder: Path, start: str = "2026-11-29T13:00:30+01:00", **more: str) -> HomeInTime:
    files = {
        "recipes/reminders.xml": (shipped() / "recipes/reminders.xml").read_text(),
        "data/memory.xml": NOTIFY,
        "etc/people.toml": PEOPLE,
        **more,
    }
    return HomeInTime(folder, start, files, "Europe/Paris")


@pytest.fixture
def home(tmp_path: Path) -> HomeInTime:
    return home_at(tmp_path)


@pytest.fixture
def agent(home: HomeInTime) -> Iterator[Agent]:
    with home.open() as agent:
        agent.until_idle()
        yield agent


def told(home: HomeInTime) -> list[str]:
    """What was told, in order."""
    path = home.path / "told"
    return path.read_text().splitlines() if path.exists() else []


def by(agent: Agent, person: str, operation: str, **arguments: Any) -> Any:
    """The answer to an operation that a person asks at the terminal."""
    agent.asker = Asker(person, uid=12345, way="socket")
    return agent.ask(operation, **arguments)


def test_it_is_told_at_its_time_once(home: HomeInTime, agent: Agent) -> None:
    row = by(agent, "ann", "remind", text="remind me at 17:30: call <Ben> & co")
    assert (row["at"], row["shown"]) == ("2026-11-29T17:30:00+01:00", "today 17:30")
    assert (row["text"], row["person"], row["every"]) == ("call <Ben> & co", "ann", "")
    agent.elapse(hours=4, minutes=29)
    assert told(home) == []
    assert [row["reminder"] for row in by(agent, "ann", "reminders")] == [row["reminder"]]
    agent.elapse(minutes=1)
    agent.elapse(days=3)
    assert told(home) == ["call <Ben> & co"]
    assert by(agent, "ann", "reminders") == []
    assert agent.memory("error") == []


def test_the_clock_is_that_of_the_person(home: HomeInTime, agent: Agent) -> None:
    row = by(agent, "ben", "remind", text="every day 8:00: pills")
    assert (row["at"], row["shown"], row["zone"]) == (
        "2026-11-29T08:00:00-05:00",
        "today 8:00",
        "America/New_York",
    )
    agent.elapse(hours=1)
    assert told(home) == ["pills"]
    (row,) = by(agent, "ben", "reminders")
    assert (row["at"], row["shown"]) == ("2026-11-30T08:00:00-05:00", "tomorrow 8:00")


def test_a_text_about_something_else_sets_none_where_it_may_be(agent: Agent) -> None:
    for text in ("the oven", "at home", "sun: is shining"):
        assert by(agent, "ann", "remind", text=text, maybe=True) == {}
    assert by(agent, "ann", "remind", text="in 1h: x", maybe=True)["text"] == "x"
    with pytest.raises(RequestError, match="expected a time"):
        by(agent, "ann", "remind", text="remind me soon", maybe=True)


def test_one_that_comes_again_is_told_each_time_and_forgotten_by_any_of_its_numbers(
    home: HomeInTime, agent: Agent
) -> None:
    first = by(agent, "ann", "remind", text="every monday 8:00: the bins")["reminder"]
    agent.elapse(days=1)
    (second,) = by(agent, "ann", "reminders")
    assert (second["shown"], second["every"]) == ("Mon 7 Dec 8:00", "mon 8:00")
    assert second["reminder"] != first
    agent.elapse(days=7)
    assert told(home) == ["the bins"] * 2
    assert by(agent, "ann", "forget_reminder", reminder=second["reminder"])["text"] == "the bins"
    with pytest.raises(RequestError, match="was told, or forgotten, before"):
        by(agent, "ann", "forget_reminder", reminder=second["reminder"])
    agent.elapse(days=14)
    assert told(home) == ["the bins"] * 2


def test_what_was_missed_is_told_once_and_the_series_goes_on(home: HomeInTime) -> None:
    with home.open() as agent:
        by(agent, "ann", "remind", text="every day 8:00: pills")
        by(agent, "ann", "remind", text="in 1h: the oven")
        agent.until_idle()
    home.clock.advance(10 * 86400.0)
    with home.open() as agent:
        agent.until_idle()
        assert sorted(told(home)) == ["pills", "the oven"]
        (row,) = by(agent, "ann", "reminders")
        assert row["shown"] == "tomorrow 8:00"


def test_one_to_come_is_put_off_and_one_that_was_told_comes_again(home: HomeInTime, agent: Agent) -> None:
    row = by(agent, "ann", "remind", text="in 1h: the oven")
    later = by(agent, "ann", "snooze", reminder=row["reminder"], length="1h")
    assert later["shown"] == "today 15:00"
    agent.elapse(hours=1, minutes=30)
    assert told(home) == []
    agent.elapse(minutes=30)
    assert told(home) == ["the oven"]
    again = by(agent, "ann", "snooze", reminder=later["reminder"], length="in 20 minutes")
    assert (again["shown"], again["every"]) == ("today 15:20", "")
    agent.elapse(minutes=20)
    assert told(home) == ["the oven"] * 2


def test_one_of_a_series_is_put_off_and_the_series_stays(home: HomeInTime, agent: Agent) -> None:
    row = by(agent, "ann", "remind", text="every day 8:00: pills")
    agent.elapse(hours=19)
    assert told(home) == ["pills"]
    by(agent, "ann", "snooze", reminder=row["reminder"], length="1h")
    assert [each["shown"] for each in by(agent, "ann", "reminders")] == ["today 9:00", "tomorrow 8:00"]
    agent.elapse(days=1)
    assert told(home) == ["pills"] * 3


def test_each_sees_and_alters_their_own_and_operators_all(agent: Agent) -> None:
    row = by(agent, "ann", "remind", text="in 1h: mine")
    assert by(agent, "ben", "reminders") == []
    for operation, more in (("forget_reminder", {}), ("snooze", {"length": "1h"})):
        with pytest.raises(RequestError, match=r"no reminder \d+ of yours"):
            by(agent, "ben", operation, reminder=row["reminder"], **more)
    with pytest.raises(RequestError, match="only operators"):
        by(agent, "ben", "reminders", of_all=True)
    assert by(agent, "olga", "reminders") == []
    (seen,) = by(agent, "olga", "reminders", of_all=True)
    assert seen["person"] == "ann"
    assert by(agent, "olga", "forget_reminder", reminder=row["reminder"])["text"] == "mine"


def test_a_chat_is_not_told_the_text_of_one_that_is_secret(agent: Agent) -> None:
    row = by(agent, "ann", "remind", text="at 17:30: call the clinic")
    agent.daemon.agent.memory.labels.add(row["reminder"], ("secret:health",))
    (shown,) = by(agent, "ann", "reminders")
    assert shown["text"] == "call the clinic"
    agent.asker = Asker("ann", 12345, CHAT, "phone")
    assert agent.ask("reminders") == [shown | {"text": "(secret)"}]
    assert agent.ask("snooze", reminder=row["reminder"], length="1h")["text"] == "(secret)"


def test_faults_are_told_and_nothing_is_added(agent: Agent) -> None:
    before = len(agent.memory("reminder"))
    for text, fault in (("in a while: x", "such as `in 20m`"), ("at 17:30", "what to remind you of")):
        with pytest.raises(RequestError, match=fault):
            by(agent, "ann", "remind", text=text)
    row = by(agent, "ann", "remind", text="in 1h: x")
    with pytest.raises(RequestError, match="expected a length of time"):
        by(agent, "ann", "snooze", reminder=row["reminder"], length="soon")
    with pytest.raises(RequestError, match="there is no reminder 999"):
        by(agent, "ann", "forget_reminder", reminder=999)
    assert len(agent.memory("reminder")) == before + 1


def test_the_recipe_is_started_once_and_missing_it_is_told(tmp_path: Path) -> None:
    home = home_at(tmp_path, **{"recipes/reminders.xml": "<cookbook/>", "data/memory.xml": "<memory/>"})
    with home.open() as agent:
        with pytest.raises(RequestError, match=r"narval take recipes/reminders\.xml"):
            by(agent, "ann", "remind", text="in 1h: x")
        assert agent.memory("reminder") == []
        home.write("recipes/reminders.xml", (shipped() / "recipes/reminders.xml").read_text())
        agent.ask("reload")
        row = by(agent, "ann", "remind", text="in 1h: x")
        assert "<notify" in row["warnings"][0]
        by(agent, "ann", "remind", text="in 2h: y")
        agent.until_idle()
        agent.elapse(seconds=5)
        by(agent, "ann", "remind", text="in 3h: z")
        agent.until_idle()
        agent.elapse(seconds=5)
        waiting = [run for run in agent.ask("runs") if run["name"] == "reminders.tell"]
        assert len(waiting) == 4, "one for each reminder, and one for the next"


def test_a_reminder_that_cannot_be_read_fails_with_what_is_wrong(home: HomeInTime, agent: Agent) -> None:
    by(agent, "olga", "remind", text="in 1h: x")
    agent.add("<reminder at='2026-11-29T13:30' every='blue moon'>y</reminder>")
    agent.add("<reminder at='soon'>z</reminder>")
    agent.until_idle()
    rows = by(agent, "olga", "reminders")
    assert [row["shown"] for row in rows] == [
        "today 13:30",
        "today 14:00",
        "never: its moment cannot be read",
    ]
    agent.elapse(hours=2)
    assert told(home) == ["x"]
    kinds = {element.attributes["type"] for element in agent.memory("error")}
    assert kinds == {"bad-reminder", "no-date"}


def test_a_zone_that_does_not_exist_is_no_zone(agent: Agent) -> None:
    for zone in ("Europe", "Nowhere/X", "../etc"):
        agent.add(f"<reminder at='2026-11-29T13:30' zone='{zone}'>x</reminder>")
        agent.add(f"<reminder at='2026-11-29T13:30+01:00' zone='{zone}'>x</reminder>")
    rows = by(agent, "olga", "reminders")
    assert [(row["shown"], row["zone"]) for row in rows] == [("today 13:30", "Europe/Paris")] * 6


def test_a_moment_without_an_offset_is_in_the_zone_of_the_home(home: HomeInTime, agent: Agent) -> None:
    by(agent, "olga", "remind", text="in 3h: y")
    agent.add("<reminder at='2026-11-29T13:30' zone='America/New_York'>x</reminder>")
    row, _ = by(agent, "olga", "reminders")
    assert (row["at"], row["shown"]) == ("2026-11-29T07:30:00-05:00", "today 7:30")
    agent.elapse(hours=1)
    assert told(home) == ["x"]


PHONE = 'kind = "xmpp"\nuser = "home@example.org"\nsecret = "s"\n'


def test_one_that_was_set_in_a_chat_is_told_there(home: HomeInTime) -> None:
    settings = home.path / "etc/narval.toml"
    home.write("etc/narval.toml", f"{settings.read_text()}[chats.phone]\n{PHONE}")
    address = 'web = "person"\nchat = ["xmpp:ann@example.org"]\nquiet = "17:00-18:00"\n'
    home.write("etc/people.toml", PEOPLE.replace('web = "person"\n', address, 1))
    with home.open() as agent:
        agent.until_idle()
        by(agent, "ann", "remind", text="every day 17:30: call Ben", chat="phone")
        for _ in range(2):
            agent.elapse(days=1)
            agent.asker = Asker()
            (row,) = agent.ask("chat_outgoing", chat="phone")
            assert (row["place"], row["text"]) == ("ann@example.org", "Reminder: call Ben")
            agent.ask("chat_sent", chat="phone", id=row["id"], message_ids=["m"])
        assert agent.memory("error") == []
    assert told(home) == []


def test_what_cannot_be_told_in_its_chat_is_told_by_the_ways_of_the_home(
    home: HomeInTime, agent: Agent
) -> None:
    agent.start("reminders.tell")
    agent.add("<reminder at='2026-11-29T13:30' every='day 8:00' person='ann' chat='gone'>pills</reminder>")
    agent.until_idle()
    agent.elapse(hours=1)
    assert told(home) == ["pills"]
    assert [row["shown"] for row in by(agent, "ann", "reminders")] == ["tomorrow 8:00"]


def test_what_can_be_told_nowhere_is_a_failure(tmp_path: Path) -> None:
    with home_at(tmp_path, **{"data/memory.xml": "<memory/>"}).open() as agent:
        agent.start("reminders.tell")
        agent.add(
            "<reminder at='2026-11-29T13:30' every='day 8:00' person='ann' chat='gone'>pills</reminder>"
        )
        agent.until_idle()
        agent.elapse(hours=1)
        assert "could not be told in its chat" in agent.memory("error[@type='reminder-not-told']")[0].text
        assert [run["name"] for run in agent.ask("runs", state="failed")] == ["reminders.tell"]
        assert [row["shown"] for row in by(agent, "ann", "reminders")] == ["tomorrow 8:00"]
