"""P81: in a simulation nobody is asked; the scenario says what people do, and time goes on without them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.core.errors import DefinitionError
from narval.system import stopwatch
from tests.ask.work_home import PURCHASE, home_with
from tests.surfaces.cli.command_line import narval as command

START = '<start recipe="purchase.buy"><request what="laptop"/></start>'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return home_with(tmp_path / "home", PURCHASE)


@pytest.fixture
def agent(home: Path) -> Iterator[Any]:
    with narval.open(home) as opened:
        yield opened


def play(agent: Any, inside: str, **attributes: str) -> Any:
    written = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return agent.simulate(
        f'<scenario at="2026-11-21T08:00" memory="empty"{written}>{START}{inside}</scenario>'
    )


def test_P81_people_answer_as_the_scenario_says(agent: Any) -> None:
    played = play(
        agent,
        '<answer work="purchase.approve" by="ben" act="claim" after="1h"/>'
        '<answer work="purchase.approve" by="ann" after="2h" outcome="approve"/>'
        '<expect at="+90m"><work name="purchase.approve" state="offered" count="1"/></expect>'
        '<expect><work name="purchase.approve" outcome="approve" count="1"/>'
        '<work name="purchase.approve" state="expired" count="0"/></expect>',
    )
    assert played["well"], [played[key] for key in ("expected", "waiting", "stopped") if key in played]
    said = [
        (line["by"], line["act"], line["refused"]) for line in played["happened"] if line["what"] == "acted"
    ]
    assert said[0][:2] == ("ben", "claim")
    assert said[0][2].startswith("not-eligible: this asks a person with the role approver")
    assert said[1] == ("ann", "answer", None)
    assert [run["state"] for run in played["runs"]] == ["done", "done"]
    assert agent.ask("runs", kind="work") == []


def test_what_happens_does_not_depend_on_the_speed_of_the_machine(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is due at one moment is done in one turn, though each look at the time finds it used up."""
    monkeypatch.setattr(stopwatch, "seconds", count().__next__)
    with narval.open(clock=narval.SimulatedClock("2026-11-21T08:00:00Z")) as agent:
        agent.load(home / "modules" / "m.py")
        agent.load(PURCHASE)
        played = agent.simulate(
            '<scenario at="2026-11-21T08:00" memory="empty" until="10d">'
            '<arrive><request what="lamp"/></arrive><start recipe="purchase.buy"/></scenario>'
        )
    assert [run["state"] for run in played["runs"]] == ["done", "expired"]


def test_P81_of_two_answers_to_an_item_the_second_is_told_as_too_late(agent: Any) -> None:
    answer = '<answer work="purchase.approve" by="ann" outcome="{}" after="2h"/>'
    played = play(agent, answer.format("approve") + answer.format("reject"))
    said = [(one["outcome"], one["refused"]) for one in played["happened"] if one["what"] == "acted"]
    assert said == [("approve", None), ("reject", "over: it was over by then")]


def test_P81_without_an_answer_time_goes_on(agent: Any) -> None:
    played = play(agent, '<expect><work name="purchase.approve" state="expired"/></expect>', until="6d")
    assert "its deadline passed without an outcome" in [line["text"] for line in played["happened"]]
    assert played["well"], [played[key] for key in ("expected", "waiting", "stopped") if key in played]


def test_P81_what_a_scenario_says_of_people_is_checked(agent: Any) -> None:
    wrong = (
        '<answer work="purchase.aprove" outcome="approve"/>'
        '<answer work="purchase.approve" outcome="aprove"><coment>x</coment></answer>'
        '<answer outcome="approve"/>'
        '<answer work="purchase.approve" action="m.buy" error="x"/>'
        '<expect><work name="purchase.nothing"/></expect>'
    )
    with pytest.raises(DefinitionError) as faults:
        play(agent, wrong)
    told = [fault.message for fault in faults.value.faults]
    assert "there is no work 'purchase.aprove'; did you mean 'purchase.approve'?" in told
    assert "there is no outcome 'aprove'; did you mean 'approve'?" in told
    assert any("there is no field 'coment'" in message for message in told)
    assert "answer needs the attribute 'action', or work for what people answer; add action=\"…\"" in told
    assert "action: an answer is to calls or to work, not both; remove one" in told
    assert "people answer by an outcome, or refuse; remove this" in told
    assert any("there is no definition 'purchase.nothing'" in message for message in told)


def test_P81_the_story_tells_what_people_do(home: Path) -> None:
    (home / "scenarios").mkdir()
    scenario = f'<scenario at="2026-11-21T08:00" memory="empty">{START}{{}}</scenario>'
    answer = '<answer work="purchase.approve" by="ann" after="2h" outcome="reject"/>'
    (home / "scenarios" / "s.xml").write_text(scenario.format(answer))
    assert "ann would answer reject" in command(home, "simulate", "s").output


def test_P81_a_scenario_may_have_people_of_its_own(agent: Any) -> None:
    people = '<people>[people.zoe]\nroles = ["approver"]</people>'
    answer = '<answer work="purchase.approve" by="zoe" outcome="approve"/>'
    played = play(
        agent, people + answer + '<expect><work name="purchase.approve" outcome="approve"/></expect>'
    )
    assert played["well"], [played[key] for key in ("expected", "waiting", "stopped") if key in played]
    with pytest.raises(DefinitionError, match=r"unknown setting 'people\.zoe\.rolls'; did you mean 'roles'"):
        play(agent, "<people>[people.zoe]\nrolls = []</people>")


APPROVED = """<cookbook>
<recipe group="shop" name="asks" start_step="tell" end_step="tell">
  <step id="tell" type="action" target="basic.log" approve="shop.may"/></recipe>
<work group="shop" name="may"><title>May it?</title><for roles="approver"/>
  <outcome name="approve"/><outcome name="reject"/></work></cookbook>"""


def test_a_call_before_which_a_person_is_asked_is_told_so_and_again_when_it_is_made(agent: Any) -> None:
    agent.load(APPROVED)
    text = '<scenario memory="empty"><start recipe="shop.asks"><note/></start>{}</scenario>'

    def called(answer: str) -> list[tuple[str, str]]:
        played = agent.simulate(text.format(answer))
        return [(line["how"], line["text"]) for line in played["happened"] if line["what"] == "called"]

    asks = ("asks first", "tell: asks shop.may before it calls basic.log(element 18)")
    assert called("") == [asks]
    approves = '<answer work="shop.may" by="ann" outcome="approve" after="1m"/>'
    assert [how for how, _ in called(approves)] == ["asks first", "noted"]
    assert called(approves.replace("approve", "reject")) == [asks]
