"""Each command with a daemon and without one gives the same answer in the promised form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from lxml import etree

from narval.ask.text import zone
from narval.kinds.recipe.engine.state import PLAN_MOVES
from narval.surfaces.cli.runs import STATES
from tests.surfaces.cli.command_line import NAME, daemon, data, make_home, narval, run_of, separately, well
from tests.surfaces.cli.terminal import on_a_terminal


@pytest.fixture(scope="module", params=["daemon", "alone"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home with a run that is done, one that failed and one that waits; with a daemon and without one."""
    home = make_home(tmp_path_factory.mktemp("place") / "home")
    well(home, "start", "demo.greet", "-", "--wait", given=NAME)
    assert narval(home, "start", "demo.fail", "--wait").exit_code == 1
    well(home, "start", "demo.await")
    well(home, "add", "-", given="<letter to='ann' urgent='no'/>")
    assert narval(home, "run", "--until-idle").exit_code == 0
    if request.param == "alone":
        yield home
        return
    with daemon(home):
        yield home
        assert json.loads(separately(home, "stop", "--json").stdout) == {"stopped": True}


RUN_KEYS = {
    "eid", "kind", "name", "state", "phase", "started", "ended", "parent", "by", "definition", "error",
    "retry_of",
}  # fmt: skip


def test_status_says_whether_it_is_alive_and_what_it_does(
    place: Path, request: pytest.FixtureRequest
) -> None:
    alive = request.node.callspec.params["place"] == "daemon"
    answer = data(place, "status")
    assert answer["home"] == str(place)
    assert (answer["state"], answer["pid"] is not None) == (
        ("running", True) if alive else ("stopped", False)
    )
    assert answer["runs"] == {"active": 1, "done": 1, "failed": 1, "cancelled": 0}
    shown = well(place, "status")
    assert "1 active, 1 done, 1 failed" in shown
    assert ("none runs" in shown) is not alive


def test_runs_have_the_promised_form_newest_first(place: Path) -> None:
    found = data(place, "runs")
    assert all(set(run) >= RUN_KEYS for run in found)
    assert [(run["name"], run["phase"]) for run in found] == [
        ("demo.await", "active"),
        ("demo.fail", "failed"),
        ("demo.greet", "done"),
    ]
    assert [run["eid"] for run in found] == sorted((run["eid"] for run in found), reverse=True)
    failed = found[1]
    assert failed["error"]["message"] == "there is nobody to talk to"
    assert failed["error"]["step"] == "break"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+[+-]\d\d:\d\d", failed["started"])
    assert found[0]["ended"] is None


def test_runs_are_chosen_by_state_kind_and_name(place: Path) -> None:
    assert [run["name"] for run in data(place, "runs", "--state", "failed")] == ["demo.fail"]
    assert [run["name"] for run in data(place, "runs", "--name", "demo.await")] == ["demo.await"]
    assert len(data(place, "runs", "--kind", "plan")) == 3
    assert data(place, "runs", "--kind", "automaton") == []
    assert narval(place, "runs", "--kind", "recipe").exit_code == 2
    assert [run["name"] for run in data(place, "runs", "--waiting-for", "element")] == ["demo.await"]
    assert data(place, "runs", "--waiting-for", "person") == []
    heading, row = well(place, "runs", "--waiting-for", "element").splitlines()
    assert ("waits for" in heading, "element" in row) == (True, True)


def test_N21_the_states_one_may_ask_for_are_the_phases_and_those_of_plans(place: Path) -> None:
    assert set(STATES) == {"active"}.union(PLAN_MOVES, *PLAN_MOVES.values())
    for state in STATES:
        assert {run["name"] for run in data(place, "runs", "--state", state)} <= {
            "demo.greet",
            "demo.fail",
            "demo.await",
        }


def test_what_is_no_run_but_an_element_is_said(place: Path) -> None:
    eid = data(place, "memory", "letter")[0]["eid"]
    result = narval(place, "show", eid)
    assert result.exit_code == 1
    assert result.stderr == (
        f"narval: {eid} is an element (letter), not a run; `narval why {eid}` tells what happened to it\n"
    )
    assert [element["eid"] for element in data(place, "memory", f"*[@eid={eid}]")] == [eid]


def test_runs_are_a_table_for_people(place: Path) -> None:
    lines = well(place, "runs").splitlines()
    titles = f"run name kind state waits for started ({zone()}) lasted error"
    assert lines[0].split() == titles.split()
    assert len(lines) == 4
    assert "there is nobody to talk to" in lines[2]
    assert lines[3].index("demo.greet") == lines[2].index("demo.fail") == lines[0].index("name")


def test_show_tells_steps_transitions_and_context(place: Path) -> None:
    answer = data(place, "show", run_of(place, "demo.greet"))
    assert set(answer) >= RUN_KEYS | {"steps", "transitions", "context"}
    assert [(step["id"], step["state"], step["target"]) for step in answer["steps"]] == [
        ("say", "history", "talk.say"),
        ("end", "done", "talk.nothing"),
    ]
    assert [(row["id"], row["state"]) for row in answer["transitions"]] == [("said", "fired")]
    greeting = data(place, "memory", "greeting")[0]["eid"]
    assert greeting in answer["context"]
    shown = well(place, "show", run_of(place, "demo.fail"))
    assert "there is nobody to talk to" in shown
    assert "break" in shown


def test_show_says_of_what_is_under_way_that_no_daemon_is_at_work(
    place: Path, request: pytest.FixtureRequest
) -> None:
    shown = [well(place, "show", run_of(place, name)) for name in ("demo.await", "demo.greet")]
    states = [next(line for line in text.splitlines() if line.startswith("state ")) for text in shown]
    if request.node.callspec.params["place"] == "daemon":
        assert states == ["state       running", "state       done"]
    else:
        said = "running, as of the last moment recorded: no daemon is running"
        assert states == [f"state       {said}", "state       done"]


def test_N2_show_gives_the_element_that_memory_shows(place: Path) -> None:
    run = run_of(place, "demo.await")
    written = well(place, "show", run, "--xml")
    assert etree.fromstring(written).get("state") == "running"
    assert data(place, "show", run, "--xml") == {"xml": written.strip()}


def test_show_gives_the_graph(place: Path) -> None:
    run = run_of(place, "demo.greet")
    written = well(place, "show", run, "--dot")
    assert written.startswith("digraph")
    assert data(place, "show", run, "--dot") == {"dot": written}
    assert narval(place, "show", run, "--dot", "--xml").exit_code == 2


def test_memory_gives_what_matches_in_the_promised_form(place: Path) -> None:
    (found,) = data(place, "memory", "greeting[.='Hello Ann']")
    assert set(found) >= {"eid", "name", "xml", "added", "origin", "used_by", "outdated"}
    assert found["name"] == "greeting"
    origin = found["origin"]
    assert (origin["run"], origin["step"], origin["by"]) == (run_of(place, "demo.greet"), "say", None)
    (call,) = [
        line
        for line in data(place, "history", origin["run"])
        if line["what"] == "Call" and line["step"] == "say"
    ]
    assert origin["call"] == call["call"]
    (given,) = data(place, "memory", "name")
    assert origin["inputs"] == [given["eid"]]
    assert found["outdated"] is False
    assert "Hello Ann" in well(place, "memory", "greeting")


def test_memory_counts_and_says_by_its_exit_status_whether_anything_matched(place: Path) -> None:
    assert well(place, "memory", "greeting", "--count") == "1\n"
    assert data(place, "memory", "greeting", "--count") == {"count": 1}
    for more in ((), ("--count",), ("--json",), ("--xml",)):
        nothing = narval(place, "memory", "greeting[@none]", *more)
        assert nothing.exit_code == 1
        assert nothing.stderr == ("" if more else "no elements\n")
    assert narval(place, "memory", "greeting[@none]", "--json").stdout == "[]\n"


def test_memory_of_a_context_is_what_the_run_holds(place: Path) -> None:
    run = run_of(place, "demo.greet")
    held = data(place, "memory", "--context", run)
    assert [element["eid"] for element in held][::-1] == data(place, "show", run)["context"]
    assert [element["name"] for element in data(place, "memory", "name", "--context", run)] == ["name"]
    assert narval(place, "memory", "letter", "--context", run).exit_code == 1


def test_memory_as_xml_can_be_added_again(place: Path, tmp_path: Path) -> None:
    written = well(place, "memory", "greeting | letter", "--xml")
    assert [child.tag for child in etree.fromstring(written)] == ["greeting", "letter"]
    other = make_home(tmp_path / "other")
    eids = data(other, "add", "-", given=written)["eids"]
    assert len(eids) == 2
    assert [element["eid"] for element in data(other, "memory", "greeting | letter")] == eids[::-1]
    assert narval(place, "memory", "--xml", "--json").exit_code == 2


def test_history_tells_what_happened_in_order(place: Path) -> None:
    run = run_of(place, "demo.greet")
    lines = data(place, "history", run)
    assert all({"seq", "at", "run", "what"} <= set(line) for line in lines)
    assert [line["seq"] for line in lines] == sorted({line["seq"] for line in lines})
    assert {line["run"] for line in lines} == {run}
    what = [line["what"] for line in lines]
    assert what[0] == "Started"
    assert what.index("Call") < what.index("Returned")
    heading, *journal = well(place, "history", run, "--journal").splitlines()
    assert (heading, len(journal)) == (f"moments of {zone()}", len(lines))
    assert data(place, "history", run, "--follow") == lines


def test_N11_why_names_the_nearest_element_and_what_failed_there(place: Path) -> None:
    run = run_of(place, "demo.await")
    answer = data(place, "why", run)
    assert (answer["run"], answer["state"]) == (run, "running")
    (waiting,) = answer["waiting"]
    assert (waiting["id"], waiting["for"], waiting["until"]) == ("answered", "condition", None)
    (condition,) = waiting["conditions"]
    letter = data(place, "memory", "letter")[0]["eid"]
    assert condition == {
        "pattern": "letter[@to='ann' and @urgent='yes']",
        "met": False,
        "nearest": letter,
        "failed": "@urgent='yes'",
        "value": condition["value"],
        "title": "letter · to ann · urgent no",
    }
    assert "no" in condition["value"]
    shown = well(place, "why", run)
    assert f"element {letter} (letter · to ann · urgent no) is nearest: expected @urgent='yes'" in shown


def test_why_of_a_part_gives_its_reason(place: Path) -> None:
    run = run_of(place, "demo.await")
    assert data(place, "why", run, "end")["reason"]
    result = narval(place, "why", run, "nowhere")
    assert result.exit_code == 1
    assert "answered" in result.stderr


def test_definitions_and_actions_tell_what_is_loaded(place: Path) -> None:
    answer = data(place, "definitions")
    assert answer["faults"] == []
    loaded = {(definition["kind"], definition["name"]): definition for definition in answer["definitions"]}
    recipe = loaded["recipe", "demo.await"]
    about = {"kind", "name", "path", "line", "digest", "loaded", "description"}
    assert set(recipe) == about | {"faulty", "active", "ended"}
    assert recipe["path"].endswith("recipes/demo.xml")
    assert recipe["line"] == 7
    assert "recipes/demo.xml:7" in well(place, "definitions")
    say = next(action for action in data(place, "actions") if action["name"] == "talk.say")
    assert [slot["id"] for slot in say["inputs"]] == ["name"]
    assert [slot["id"] for slot in say["outputs"]] == ["greeting"]
    assert "Greets who is named." in well(place, "actions")


def test_log_gives_the_last_lines(place: Path) -> None:
    lines = data(place, "log")
    assert all(set(line) == {"seq", "at", "level", "logger", "message"} for line in lines)
    assert len(well(place, "log", "--lines", 1).splitlines()) <= 2  # with the zone of the moments above


def test_start_gives_the_run_and_add_the_eids(place: Path) -> None:
    run = data(place, "start", "demo.slow")
    assert set(run) >= RUN_KEYS
    assert run["phase"] == "active"
    assert data(place, "cancel", run["eid"], "--reason", "a test")["eid"] == run["eid"]
    begun = data(place, "start", "demo.slow", "-", "--each", given="<memory><c/><d/></memory>")["runs"]
    assert [data(place, "cancel", run)["eid"] for run in begun] == begun
    eids = data(place, "add", "-", given="<memory><a/><b/></memory>")["eids"]
    assert [element["name"] for element in data(place, "memory", "a | b")] == ["b", "a"]
    assert [element["eid"] for element in data(place, "memory", "a | b")] == eids[::-1]


NIGHTLY = """<recipe group="w" name="nightly" start_step="wait" end_step="end">
  <step id="wait" type="action" target="basic.nothing"/>
  <step id="end" type="action" target="basic.nothing"/>
  <transition id="night">
    <in idref="wait"/><out idref="end"/><time hours="3" minutes="0" seconds="0"/>
  </transition>
</recipe>"""


def test_start_names_another_run_that_waits_for_the_same_moment(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    (home / "recipes/w.xml").write_text(NIGHTLY)
    with daemon(home):
        well(home, "agents", "add", "ada")
        first, second = (narval(home, "start", "w.nightly", "--agent", "ada") for _ in range(2))
        run = int(first.stdout)
        assert first.stderr == ""
        cancel = f"narval --home {home} --agent ada cancel {run}"
        assert second.stderr == f"run {run} of it waits for its moment too; `{cancel}` ends that one\n"


def test_a_run_is_cancelled_by_the_name_of_its_definition(place: Path) -> None:
    first, second = (data(place, "start", "demo.slow")["eid"] for _ in range(2))
    refused = narval(place, "cancel", "--name", "demo.slow")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert f"2 runs of demo.slow are active: {first}, {second}; name one by its number" in refused.stderr
    well(place, "cancel", first)
    if data(place, "status")["state"] == "running":  # without a daemon, the next one ends it
        assert data(place, "cancel", "--name", "demo.slow")["eid"] == second
        refused = narval(place, "cancel", "--name", "demo.slow")
        assert (refused.exit_code, "no run of demo.slow is active" in refused.stderr) == (1, True)
    else:
        well(place, "cancel", second)
    assert "did you mean demo.await?" in narval(place, "cancel", "--name", "demo.awiat").stderr
    for wrong in ((), ("--name", "demo.slow", str(first))):
        assert narval(place, "cancel", *wrong).exit_code == 2


def test_all_runs_are_cancelled_once_somebody_agrees(place: Path) -> None:
    waiting = [row["eid"] for row in data(place, "runs", "--state", "active")]
    slow = [data(place, "start", "demo.slow")["eid"] for _ in range(2)]

    def active() -> set[int]:
        return {row["eid"] for row in data(place, "runs", "--state", "active")}

    for given in ("", "n\n"):
        asked = narval(place, "cancel", "--all", "--name", "demo.slow", given=given)
        assert (asked.exit_code, "Cancel 2 runs? [y/N]" in asked.output) == (1, True)
        assert "nothing was cancelled; --yes agrees without being asked" in asked.stderr
        assert all(str(eid) in asked.stdout for eid in slow)
        assert active() == {*waiting, *slow}
    told = well(place, "cancel", "--all", "--name", "demo.slow", given="y\n")
    assert told.endswith("2 runs cancelled\n")
    assert active() == {*waiting}
    run = data(place, "start", "demo.slow")["eid"]
    (done,) = data(place, "cancel", "--all", "--name", "demo.slow", "--yes", "--reason", "a test")
    assert (done["eid"], done["phase"]) == (run, "cancelled")
    assert "a test" in well(place, "why", run)
    for wrong in (("--all", "1"), ("--yes", "1"), ("--all", "--json")):
        assert narval(place, "cancel", *wrong).exit_code == 2


def test_start_show_why_and_errors_name_the_line_that_raised_an_error_or_else_that_of_the_step(
    tmp_path: Path,
) -> None:
    home = make_home(tmp_path / "home")
    for name, place in (("demo.fail", "modules/talk.py:21"), ("demo.greet", "recipes/demo.xml:3")):
        started = narval(home, "start", name, "--wait")  # nobody is there to be greeted
        assert (started.exit_code, f"({place}, element " in started.stderr) == (1, True)
        assert f"({place}, element " in well(home, "why", run_of(home, name))
        assert data(home, "show", run_of(home, name))["error"]["place"] == place
        (row,) = [row for row in data(home, "errors") if row["definition"] == name]
        assert row["place"] == place
        assert place in well(home, "errors")
        assert place in well(home, "errors", "show", row["incident"])
    (home / "recipes" / "demo.xml").write_text("<recipe>")
    row = next(row for row in data(home, "errors") if row["what"] == "file")
    assert row["place"].startswith("recipes/demo.xml:1")


def test_colours_are_for_terminals_and_can_be_declined(place: Path) -> None:
    coloured = on_a_terminal(place, "runs")
    assert "\x1b[" in coloured
    declined = on_a_terminal(place, "runs", NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3\dm", declined)
    for shown in (coloured, declined):
        assert re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()[0].split()[:3] == ["run", "name", "kind"]
    assert "\x1b" not in separately(place, "runs").stdout.decode()


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("show", 999), 1, "there is no run 999"),
        (("history", 999), 1, "there is no run 999"),
        (("history", 999, "--json"), 1, "there is no run 999"),
        (("why", 999), 1, "there is no run 999"),
        (("cancel", 999), 1, "there is no run 999"),
        (("start", "demo.gret"), 1, "did you mean demo.greet?"),
        (("memory", "letter["), 2, "'letter['"),
        (("memory", "$say"), 2, "$say is known only in a recipe"),
        (("memory", "letter[. = $say]", "--count"), 2, "$say is known only in a recipe"),
        (("runs", "--waiting-for", "rain"), 2, "'rain' is not one of 'person', 'act', 'nothing', 'element',"),
        (("runs", "--state", "bogus"), 2, "'bogus' is not one of active, done, failed, cancelled, ready,"),
        (("runs", "--home", ""), 2, "expected the path of a folder, got an empty one"),
        (("init", ""), 2, "expected the path of a folder, got an empty one"),
        (("memory", "--context", "999"), 1, "there is no run 999"),
        (("show",), 2, "RUN"),
        (("show", "twelve"), 2, "twelve"),
        (("add",), 2, "FILE"),
        (("add", "/there/is/none"), 2, "/there/is/none"),
        (("check", "/there/is/none"), 2, "/there/is/none"),
        (("start", "demo.greet", "--timeout", 3), 2, "--wait"),
        (("run", "--timeout", "soon"), 2, "soon"),
        (("dance",), 2, "dance"),
    ],
)
def test_the_exit_status_says_whose_matter_it_is(
    place: Path, arguments: tuple[object, ...], status: int, said: str
) -> None:
    result = narval(place, *arguments)
    assert result.exit_code == status
    assert said in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
