"""Events of dataflows: what programs hear while one runs, and what `show` tells of one under way (T53)."""

from __future__ import annotations

import queue
import threading
from pathlib import Path
from typing import Any

import pytest

import narval
from narval import ActionError, FlowEvent, run_dataflow
from narval.core.errors import RequestError
from tests.surfaces.cli.command_line import make_home
from tests.surfaces.cli.command_line import narval as command

PLAN = """
PLAN Cheap {
  INPUT: TupleStream homes, Number most
  OUTPUT: TupleStream cheap, Object count
  BODY {
    sprintf("price < %s", (most) : condition)
    select(condition, homes : cheap)
    aggregate("*", "count", cheap : count)
    atleastone(homes : _, none)
    print(none)
  }
}
PLAN Long {
  OUTPUT: Stream out
  BODY {
    makestream2("[{\\"n\\": 1}, {\\"n\\": 2}, {\\"n\\": 3}]" : ones)
    select("n > 1", ones : out)
    print(out) ENABLE: printed
    sleep("600000") WAIT: printed
  }
}
PLAN Short { INPUT: String a; BODY { print(a) } }
PLAN Fails { INPUT: String a; BODY { notify(a, a) } }
"""
HOMES = [{"id": "a", "price": 700}, {"id": "b", "price": 950}]


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    file = tmp_path / "homes.plan"
    file.write_text(PLAN)
    return file


def test_T53_TA39_a_program_hears_what_comes_to_each_operator_and_when_it_fires(plan: Path) -> None:
    heard: list[FlowEvent] = []
    given = {"homes": HOMES, "most": 900}
    outputs = run_dataflow(plan, inputs=given, listen=heard.append)
    assert outputs == {"cheap": [{"id": "a", "price": 700}], "count": 1}
    assert [(event.kind, event.port, event.data) for event in heard if event.operator == "select-1"] == [
        ("tuples", "in", HOMES),
        ("end", "in", None),
        ("value", "cond", "price < 900"),
        ("fired", "", None),
        ("finished", "", None),
    ]
    assert {event.operator: event.kind for event in heard}["print-1"] == "cancelled"
    assert {(event.plan, event.line) for event in heard if event.operator == "aggregate-1"} == {
        ("homes.Cheap", 8)
    }


def test_T53_nothing_goes_on_before_a_listener_returns_and_a_queue_lets_others_hear_later(plan: Path) -> None:
    going = threading.Event()
    heard: queue.Queue[FlowEvent] = queue.Queue()
    results: list[Any] = []

    def listen(event: FlowEvent) -> None:
        heard.put(event)
        if event.kind == "fired" and event.operator == "aggregate-1":
            assert going.wait(60)

    def run() -> None:
        results.append(run_dataflow(plan, inputs={"homes": HOMES, "most": "900"}, listen=listen))

    thread = threading.Thread(target=run)
    thread.start()
    while heard.get(timeout=60)[:3:2] != ("fired", "aggregate-1"):
        pass
    assert heard.empty()
    assert results == []
    going.set()
    thread.join(60)
    assert results[0]["count"] == 1


@pytest.mark.parametrize(
    ("name", "inputs", "error", "why"),
    [
        ("Cheap", {"most": 9}, RequestError, r"expected the input homes; give it by inputs=\{'homes': …\}"),
        ("Cheap", {"x": 9}, RequestError, r"expected an input of homes.Cheap \(homes, most\), found 'x'"),
        ("Cheap", {"homes": [], "most": float("nan")}, RequestError, "expected a plain number.* found 'nan'"),
        ("Cheap", {"homes": [], "most": "12,5"}, RequestError, "expected a plain number"),
        (
            "Cheap",
            {"homes": [], "most": []},
            RequestError,
            "expected a value for the input most, found a list",
        ),
        ("Cheap", {"homes": [{"price": 1}, 2], "most": 9}, RequestError, "a list of dicts .* found 2 in it"),
        ("Fails", {"a": "mailto:x"}, ActionError, "nothing is sent to mailto: in the foreground; start it"),
        (
            "Fails",
            {"a": "x:y"},
            ActionError,
            r"expected an address .* \(in notify-1 of homes.Fails, line 23\)",
        ),
    ],
)
def test_a_program_is_told_what_is_wrong(
    plan: Path, name: str, inputs: dict[str, Any], error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        run_dataflow(plan, name, inputs)


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"tttl": "5m"}, "limits: there is no limit 'tttl'; did you mean 'ttl'"),
        ({"ttl": "5x"}, "ttl: a number of seconds or a text such as"),
        ({"restarts": -1}, "restarts: expected a whole number, found '-1'"),
    ],
)
def test_a_limit_that_is_none_is_told(plan: Path, limits: dict[str, Any], why: str) -> None:
    with pytest.raises(RequestError, match=why):
        run_dataflow(plan, "Cheap", {"homes": HOMES, "most": 900}, limits=limits)


def test_limits_are_texts_or_numbers(plan: Path) -> None:
    limits = {"ttl": 20, "restarts": 0, "depth": "3", "frames": 9, "spill": True}
    assert run_dataflow(plan, "Cheap", {"homes": HOMES, "most": 900}, limits=limits)


def test_T53_show_tells_what_operators_took_and_gave_and_what_was_printed_while_it_runs(
    tmp_path: Path,
) -> None:
    home = make_home(tmp_path / "home")
    (home / "recipes" / "homes.plan").write_text(PLAN)
    with narval.open(home) as agent:
        run = agent.start("homes.Long")
        while True:
            shown = agent.ask("show", run=run)
            by_id = {row["id"]: row for row in shown["operators"]}
            if len(shown["printed"]) == 2 and by_id["sleep-1"]["state"] == "finishing":
                break
            agent.wait(run, timeout=0.02)
        assert shown["printed"] == [
            {"session": "session 1", "line": '{"n":2}'},
            {"session": "session 1", "line": '{"n":3}'},
        ]
        assert by_id["select-1"]["line"] == 17
        assert [by_id["select-1"][key] for key in ("state", "taken", "given")] == ["finished", 3, 2]
        assert [by_id["sleep-1"][key] for key in ("state", "requests")] == ["finishing", 1]
        assert shown["streams"] == [{"id": "ones", "tuples": 3}, {"id": "out", "tuples": 2}]
        drawn = agent.ask("drawn", run=run)
        parts = {part["id"]: (part["state"], part["tone"], part["badge"]) for part in drawn["parts"]}
        assert parts["select-1"] == ("finished", "done", "3 in, 2 out")
        assert parts["sleep-1"] == ("finishing", "active", "0 in, 0 out")
        arcs = {(arc["text"], arc["to"]): arc["badge"] for arc in drawn["arcs"]}
        assert arcs["ones", "select-1"] == "3"
        assert arcs["out", "print-1"] == arcs["out", "output out"] == "2"
        assert agent.ask("part", run=run, id="select-1")["reason"] == "it is finished: 3 tuples in, 2 out"
        agent.cancel(run)
        agent.until_idle()
        over = agent.ask("show", run=run)
        assert (over["state"], over["sessions"][0]["state"]) == ("cancelled", "cancelled")
        run = agent.start("homes.Short", environment={"a": "all is well"})
        agent.until_idle()
    assert command(home, "show", run).output.splitlines()[-1] == "session 1  all is well"
