"""The command line, end to end: each command with a daemon and without one, and its exit status."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from lxml import etree

from narval.engines.recipe.state import PLAN_MOVES
from narval.operations.operations import OPERATIONS
from narval.operations.text import zone
from narval.runtime.home.home import Home
from narval.surfaces.cli import COMMANDS, main
from narval.surfaces.cli.runs import STATES
from tests.surfaces.cli.command_line import (
    NAME,
    RECIPES,
    daemon,
    data,
    make_home,
    narval,
    program,
    run_of,
    separately,
    well,
)

SCHEMA = """\
<element name="letter" xmlns="http://relaxng.org/ns/structure/1.0"><attribute name="to"/></element>
"""


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


# --- help -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS.values(), ids=lambda command: str(command.name))
def test_every_command_explains_itself_with_an_example(command: click.Command) -> None:
    result = CliRunner().invoke(main, [str(command.name), "--help"])
    assert result.exit_code == 0
    assert "--home DIR" in result.output
    assert "--json" in result.output
    example = result.output.partition("Example")[2]
    assert f"narval {command.name}" in example
    for line in example.splitlines()[1:]:
        words = shlex.split(line)
        assert "narval" in words
        given = words[words.index("narval") + 1 :]
        known = {name for each in command.params for name in each.opts}
        assert {word for word in given if word.startswith("--")} <= known


def test_help_lists_every_command_with_one_whole_sentence() -> None:
    lines = CliRunner().invoke(main, ["--help"]).output.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in lines] == list(COMMANDS)
    assert all(line.endswith(".") and not line.endswith("..") for line in lines)


def test_every_operation_has_a_command() -> None:
    """What `show`, `start` and `memory` ask besides has none, nor what only programs ask of a process."""
    asked_besides = {"xml", "graph", "wait", "count"}
    by_programs = {
        "execute_queued",
        "execute_token",
        "finalize",
        "listen",
        "unlisten",
        "reevaluate",
        "retry_arc_token",
    }
    assert set(OPERATIONS) - asked_besides - by_programs <= set(COMMANDS)


def test_version_is_said() -> None:
    assert re.fullmatch(r"narval \d+\.\d+\.\d+\n", CliRunner().invoke(main, ["--version"]).output)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete_commands(shell: str) -> None:
    environment = {**os.environ, "_NARVAL_COMPLETE": f"{shell}_source"}
    done = subprocess.run([sys.executable, "-m", "narval"], capture_output=True, env=environment, check=False)
    assert b"_NARVAL_COMPLETE" in done.stdout


# --- each command, with a daemon and without ------------------------------------------------------------

RUN_KEYS = {
    "eid", "kind", "name", "state", "phase", "started", "ended", "parent", "definition", "error",
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


def test_runs_have_the_promised_form_newest_last(place: Path) -> None:
    found = data(place, "runs")
    assert all(set(run) >= RUN_KEYS for run in found)
    assert [(run["name"], run["phase"]) for run in found] == [
        ("demo.greet", "done"),
        ("demo.fail", "failed"),
        ("demo.await", "active"),
    ]
    assert [run["eid"] for run in found] == sorted(run["eid"] for run in found)
    failed = found[1]
    assert failed["error"]["message"] == "there is nobody to talk to"
    assert failed["error"]["step"] == "break"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+[+-]\d\d:\d\d", failed["started"])
    assert found[2]["ended"] is None


def test_runs_are_chosen_by_state_kind_and_name(place: Path) -> None:
    assert [run["name"] for run in data(place, "runs", "--state", "failed")] == ["demo.fail"]
    assert [run["name"] for run in data(place, "runs", "--name", "demo.await")] == ["demo.await"]
    assert len(data(place, "runs", "--kind", "plan")) == 3
    assert data(place, "runs", "--kind", "automaton") == []
    assert narval(place, "runs", "--kind", "recipe").exit_code == 2


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
        f"narval: {eid} is an element (letter), not a run; narval memory '*[@eid={eid}]' shows it\n"
    )
    assert [each["eid"] for each in data(place, "memory", f"*[@eid={eid}]")] == [eid]


def test_runs_are_a_table_for_people(place: Path) -> None:
    lines = well(place, "runs").splitlines()
    assert lines[0].split() == ["run", "name", "kind", "state", "started", f"({zone()})", "took", "error"]
    assert len(lines) == 4
    assert "there is nobody to talk to" in lines[2]
    assert lines[1].index("demo.greet") == lines[2].index("demo.fail") == lines[0].index("name")


def test_show_tells_steps_transitions_and_context(place: Path) -> None:
    answer = data(place, "show", run_of(place, "demo.greet"))
    assert set(answer) >= RUN_KEYS | {"steps", "transitions", "context"}
    assert [(step["id"], step["state"], step["target"]) for step in answer["steps"]] == [
        ("say", "history", "talk.say"),
        ("end", "done", "talk.nothing"),
    ]
    assert [(each["id"], each["state"]) for each in answer["transitions"]] == [("said", "fired")]
    greeting = data(place, "memory", "greeting")[0]["eid"]
    assert greeting in answer["context"]
    shown = well(place, "show", run_of(place, "demo.fail"))
    assert "there is nobody to talk to" in shown
    assert "break" in shown


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
    assert found["origin"] == {"run": run_of(place, "demo.greet"), "step": "say"}
    assert found["outdated"] is False
    assert "Hello Ann" in well(place, "memory", "greeting")


def test_memory_counts_and_says_by_its_exit_status_whether_anything_matched(place: Path) -> None:
    assert well(place, "memory", "greeting", "--count") == "1\n"
    assert data(place, "memory", "greeting", "--count") == {"count": 1}
    for more in ((), ("--count",), ("--json",), ("--xml",)):
        nothing = narval(place, "memory", "greeting[@none]", *more)
        assert nothing.exit_code == 1
        assert nothing.stderr == ""
    assert narval(place, "memory", "greeting[@none]", "--json").stdout == "[]\n"


def test_memory_of_a_context_is_what_the_run_holds(place: Path) -> None:
    run = run_of(place, "demo.greet")
    held = data(place, "memory", "--context", run)
    assert [each["eid"] for each in held] == data(place, "show", run)["context"]
    assert [each["name"] for each in data(place, "memory", "name", "--context", run)] == ["name"]
    assert narval(place, "memory", "letter", "--context", run).exit_code == 1


def test_memory_as_xml_can_be_added_again(place: Path, tmp_path: Path) -> None:
    written = well(place, "memory", "greeting | letter", "--xml")
    assert {child.tag for child in etree.fromstring(written)} == {"greeting", "letter"}
    other = make_home(tmp_path / "other")
    eids = data(other, "add", "-", given=written)["eids"]
    assert len(eids) == 2
    assert [each["eid"] for each in data(other, "memory", "greeting | letter")] == eids
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
    assert len(well(place, "history", run).splitlines()) == len(lines)
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
    }
    assert "no" in condition["value"]
    shown = well(place, "why", run)
    assert f"element {letter} is nearest: expected @urgent='yes'" in shown


def test_why_of_a_part_gives_its_reason(place: Path) -> None:
    run = run_of(place, "demo.await")
    assert data(place, "why", run, "end")["reason"]
    result = narval(place, "why", run, "nowhere")
    assert result.exit_code == 1
    assert "answered" in result.stderr


def test_definitions_and_actions_tell_what_is_loaded(place: Path) -> None:
    answer = data(place, "definitions")
    assert answer["faults"] == []
    loaded = {(each["kind"], each["name"]): each for each in answer["definitions"]}
    recipe = loaded["recipe", "demo.await"]
    assert set(recipe) == {"kind", "name", "path", "line", "digest", "loaded", "description"}
    assert recipe["path"].endswith("recipes/demo.xml")
    assert recipe["line"] == 7
    assert "recipes/demo.xml:7" in well(place, "definitions")
    say = next(each for each in data(place, "actions") if each["name"] == "talk.say")
    assert [each["id"] for each in say["inputs"]] == ["name"]
    assert [each["id"] for each in say["outputs"]] == ["greeting"]
    assert "Greets who is named." in well(place, "actions")


def test_log_gives_the_last_lines(place: Path) -> None:
    lines = data(place, "log")
    assert all(set(line) == {"seq", "at", "level", "logger", "message"} for line in lines)
    assert len(well(place, "log", "--lines", 1).splitlines()) <= 1


def test_start_gives_the_run_and_add_the_eids(place: Path) -> None:
    run = data(place, "start", "demo.slow")
    assert set(run) >= RUN_KEYS
    assert run["phase"] == "active"
    assert data(place, "cancel", run["eid"], "--reason", "a test")["eid"] == run["eid"]
    begun = data(place, "start", "demo.slow", "-", "--each", given="<memory><c/><d/></memory>")["runs"]
    assert [data(place, "cancel", each)["eid"] for each in begun] == begun
    eids = data(place, "add", "-", given="<memory><a/><b/></memory>")["eids"]
    assert [each["name"] for each in data(place, "memory", "a | b")] == ["a", "b"]
    assert [each["eid"] for each in data(place, "memory", "a | b")] == eids


# --- exit status ----------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    "command",
    [each for each in COMMANDS.values() if each.name not in ("init", "automaton")],
    ids=lambda one: one.name,
)
def test_without_a_home_every_command_says_how_to_make_one(command: click.Command, tmp_path: Path) -> None:
    given = {
        "show": ["1"],
        "history": ["1"],
        "why": ["1"],
        "cancel": ["1"],
        "add": ["-"],
        "start": ["a.b"],
    } | {
        "signal": ["1", "go"],
        "retry": ["1"],
        "complete": ["1", "node"],
        "backtrack": ["1", "node"],
        "tokens": ["1"],
        "environment": ["1"],
    }
    nowhere = tmp_path / "nowhere"
    result = narval(nowhere, command.name, *given.get(str(command.name), []))
    assert result.exit_code == 3
    assert f"narval init {nowhere}" in result.stderr
    assert not nowhere.exists()


def test_a_refused_element_is_named_by_file_line_and_column(home: Path, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.xml", tmp_path / "bad.xml"
    good.write_text("<a/>")
    bad.write_text("<a>\n  <b></a>")
    for files in ([bad], [good, bad]):
        result = narval(home, "add", *files)
        assert result.exit_code == 1
        assert f"{bad}:2:" in result.stderr
        assert result.stdout == ""
    assert narval(home, "memory", "a").exit_code == 1
    result = narval(home, "start", "demo.greet", bad)
    assert f"{bad}:2:" in result.stderr
    assert data(home, "runs") == []


def test_adding_nothing_prints_nothing(home: Path) -> None:
    assert well(home, "add", "-", given="<memory/>") == ""
    assert data(home, "add", "-", given="<memory/>") == {"eids": []}


def test_N7_a_refusal_by_a_schema_is_told_like_other_faults(home: Path) -> None:
    (home / "etc" / "schemas").mkdir()
    (home / "etc" / "schemas" / "letter.rng").write_text(SCHEMA)
    result = narval(home, "add", "-", given="<letter/>")
    assert result.exit_code == 1
    assert result.stderr.startswith("narval: <stdin>:1:1: refused by its schema: ")
    assert well(home, "add", "-", given="<letter to='ann'/>")


def test_what_is_too_large_is_refused_before_it_is_read_to_its_end(home: Path) -> None:
    done = subprocess.run(
        f"head -c 40000000 /dev/zero | {shlex.join(program(home, 'add', '-'))}",
        shell=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert b"<stdin>: expected at most" in done.stderr


@pytest.mark.parametrize("how", ["option before", "option after", "environment"])
def test_the_home_is_chosen_by_option_or_environment(home: Path, how: str) -> None:
    arguments = {
        "option before": ["--home", str(home), "status"],
        "option after": ["status", "--home", str(home)],
    }
    environment = {"NARVAL_HOME": str(home if how == "environment" else home.parent)}
    given = [*arguments.get(how, ["status"]), "--json"]
    result = CliRunner().invoke(main, given, env=environment)
    assert json.loads(result.stdout)["home"] == str(home)


def test_json_may_be_asked_for_before_the_command(home: Path) -> None:
    result = CliRunner().invoke(main, ["--json", "runs", "--home", str(home)])
    assert json.loads(result.stdout) == []


# --- init, check ----------------------------------------------------------------------------------------


def test_init_makes_a_home_that_has_no_faults(tmp_path: Path) -> None:
    place = tmp_path / "new"
    result = CliRunner().invoke(main, ["init", str(place)])
    assert result.exit_code == 0
    assert f"narval --home {place} run" in result.stdout
    assert data(place, "check") == []
    assert data(place, "definitions")["definitions"]
    again = CliRunner().invoke(main, ["init", str(place)])
    assert again.exit_code == 1
    assert "is a home already" in again.stderr


def test_init_without_a_folder_makes_the_home_that_others_use(tmp_path: Path) -> None:
    place = tmp_path / "usual"
    result = CliRunner().invoke(main, ["init", "--json"], env={"NARVAL_HOME": str(place)})
    assert json.loads(result.stdout) == {"home": str(place)}
    assert (place / "recipes").is_dir()


def test_init_bare_makes_a_home_without_the_demo(tmp_path: Path) -> None:
    place = tmp_path / "bare one"
    result = CliRunner().invoke(main, ["init", str(place), "--bare"])
    assert f"narval --home '{place}' run" in result.stdout
    assert data(place, "check") == []
    assert {each["kind"] for each in data(place, "definitions")["definitions"]} == {"action"}
    assert [str(each.relative_to(place)) for each in place.glob("data/**/*")] == ["data/memory.xml"]
    assert list((place / "recipes").iterdir()) == []
    assert etree.parse(place / "data" / "memory.xml").getroot().tag == "memory"
    assert (place / "etc" / "narval.toml").is_file()


def test_suggested_commands_can_be_given_to_a_shell(tmp_path: Path) -> None:
    result = narval(tmp_path / "no where", "runs")
    assert f"narval init '{tmp_path}/no where'" in result.stderr


def test_init_on_a_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(main, ["init", str(tmp_path / "file")])
    assert result.exit_code == 1
    assert result.stderr == f"narval: expected a folder or nothing at {tmp_path}/file, found something else\n"


def test_N31_what_was_saved_a_moment_ago_can_be_started_and_what_is_broken_says_why(home: Path) -> None:
    good = RECIPES.replace('group="demo"', 'group="ten"')
    (home / "recipes" / "ten.xml").write_text(good.replace("talk.say", "talk.sing"))
    with daemon(home):
        broken = narval(home, "start", "ten.greet")
        (home / "recipes" / "new.xml").write_text(RECIPES.replace('group="demo"', 'group="new"'))
        assert int(well(home, "start", "new.greet")) > 0
        unknown = narval(home, "start", "nine.greet")
    assert (broken.exit_code, unknown.exit_code) == (1, 1)
    assert broken.stderr.startswith("narval: recipes/ten.xml did not load: line 3: ")
    assert "there is no definition nine.greet" in unknown.stderr


def test_N13_check_tells_every_fault_with_its_place(home: Path) -> None:
    assert narval(home, "check").exit_code == 0
    faulty = home / "recipes" / "faulty.xml"
    faulty.write_text(RECIPES.replace('group="demo"', 'group="faulty"').replace("talk.", "talked."))
    result = narval(home, "check")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert len(lines) >= 6
    assert all(re.match(r"\S*recipes/faulty\.xml:\d+:\d+: \S", line) for line in lines)
    assert f"{len(lines)} faults in 1 file" in result.stderr
    as_json = json.loads(narval(home, "check", "--json").stdout)
    assert [set(each) for each in as_json] == [{"path", "line", "column", "message", "warning"}] * len(lines)
    assert narval(home, "check", home / "recipes" / "demo.xml").exit_code == 0
    assert narval(home, "check", faulty).exit_code == 1


def test_N31_a_bad_file_is_told_and_the_rest_is_loaded(home: Path) -> None:
    (home / "recipes" / "broken.xml").write_text("<cookbook>\n<recipe")
    answer = data(home, "definitions")
    assert [each["path"].endswith("broken.xml") for each in answer["faults"]] == [True]
    assert "demo.greet" in {each["name"] for each in answer["definitions"]}
    assert "broken.xml:2:" in well(home, "definitions")
    assert narval(home, "check").exit_code == 1


# --- what is written ------------------------------------------------------------------------------------


def test_output_is_utf8_whatever_the_locale(home: Path) -> None:
    well(home, "add", "-", given="<letter>né 漢字</letter>")
    with daemon(home):
        for language in ("C", "en_US.ISO-8859-1"):
            environment = {**os.environ, "LC_ALL": language, "LANG": language, "PYTHONIOENCODING": "ascii"}
            done = separately(home, "memory", "letter", "--json", env=environment)
            assert "né 漢字" in json.loads(done.stdout)[0]["xml"]
            assert "né 漢字" in separately(home, "memory", "--xml", env=environment).stdout.decode()
            assert separately(home, "memory", env=environment).returncode == 0


def test_a_reader_that_goes_away_is_no_error_to_see(home: Path) -> None:
    elements = "".join(f"<a n='{number}'/>" for number in range(3000))
    well(home, "add", "-", given=f"<memory>{elements}</memory>")
    command = f"{shlex.join(program(home, 'memory', 'a'))} | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, check=False)
    assert done.stdout.split()[0] == b"eid"
    assert b"Traceback" not in done.stderr


def in_a_shell(home: Path, text: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A command line of a shell in which {} stands for narval's; its exit status is that of narval."""
    written = text.replace("{}", shlex.join(program(home, *arguments)))
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", written], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    return done


@pytest.mark.parametrize(
    "arguments", [("memory", "a"), ("memory", "--xml"), ("memory", "--json"), ("history", "1")], ids=str
)
def test_a_reader_that_has_gone_ends_a_command_well(home: Path, arguments: tuple[str, ...]) -> None:
    run = well(home, "start", "demo.greet").strip()
    elements = "".join(f"<a n='{number}'/>" for number in range(2000))
    well(home, "add", "-", given=f"<memory>{elements}</memory>")
    given = [run if each == "1" else each for each in arguments]
    done = in_a_shell(home, "{} | true", *given)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_run_is_started_even_if_nobody_reads_its_number(home: Path) -> None:
    done = in_a_shell(home, "{} | true", "start", "demo.greet")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(data(home, "runs")) == 1


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ("{} >&-", ("memory",), "narval: expected standard output to be open"),
        ("{} <&- >&-", ("memory",), "narval: expected standard output to be open"),
        ("{} <&-", ("add", "-"), "narval: <stdin>:1:1: not well-formed XML"),
        ("{} >/dev/full", ("status",), "narval: No space left on device"),
        ("{} >/dev/full", ("status", "--json"), "narval: No space left on device"),
        ("{} >/dev/full", ("--help",), "narval: No space left on device"),
    ],
)
def test_a_stream_that_cannot_be_used_is_said_in_one_sentence(
    home: Path, text: str, arguments: tuple[str, ...], said: str
) -> None:
    done = in_a_shell(home, text, *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith(said)
    assert len(done.stderr.splitlines()) == 1


def test_without_a_stream_for_errors_there_is_an_exit_status(home: Path) -> None:
    assert in_a_shell(home, "{} 2>&-", "show", 999).returncode == 1
    assert in_a_shell(home, "{} <&- 2>&-", "runs", "--json").stdout == "[]\n"


def on_a_terminal(home: Path, *arguments: object, **environment: str) -> str:
    """What a command writes to a terminal."""
    main_end, their_end = pty.openpty()
    settings = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    settings |= {"TERM": "xterm-256color", "COLUMNS": "120", **environment}
    running = subprocess.Popen(program(home, *arguments), stdout=their_end, stderr=their_end, env=settings)
    os.close(their_end)
    written = b""
    while True:
        try:
            received = os.read(main_end, 65536)
        except OSError:
            break
        if not received:
            break
        written += received
    os.close(main_end)
    assert running.wait() == 0
    return written.decode()


def test_colours_are_for_terminals_and_can_be_declined(place: Path) -> None:
    coloured = on_a_terminal(place, "runs")
    assert "\x1b[" in coloured
    declined = on_a_terminal(place, "runs", NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3\dm", declined)
    for shown in (coloured, declined):
        assert re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()[0].split()[:3] == ["run", "name", "kind"]
    assert "\x1b" not in separately(place, "runs").stdout.decode()


def test_an_element_cannot_command_the_terminal(home: Path) -> None:
    well(home, "add", "-", given="<letter subject='&#x9b;2J &#x202e;evil'/>")
    with daemon(home):
        for arguments in (["memory", "letter"], ["memory", "--xml"], ["memory", "letter", "--json"]):
            assert not set("\x9b\u202e") & set(on_a_terminal(home, *arguments))
            assert "\x9b" not in separately(home, *arguments).stdout.decode()


def test_a_graph_is_drawn_by_graphviz_where_it_is_installed(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    well(home, "start", "demo.greet", "-", "--wait", given=NAME)
    run, drawing, programs = run_of(home, "demo.greet"), tmp_path / "run.svg", tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    missing = narval(home, "show", run, "--svg", drawing)
    assert missing.exit_code == 1
    assert "install" in missing.stderr
    dot = programs / "dot"
    dot.write_text('#!/bin/sh\n[ "$1" = -Tsvg ] && while read -r line; do echo "<!-- $line -->"; done\n')
    dot.chmod(0o755)
    well(home, "show", run, "--svg", drawing)
    assert "digraph" in drawing.read_text()
    dot.write_text("#!/bin/sh\necho 'syntax error in line 1' >&2\nexit 1\n")
    refused = narval(home, "show", run, "--svg", drawing)
    assert refused.exit_code == 1
    assert "syntax error in line 1" in refused.stderr


# --- lightness ------------------------------------------------------------------------------------------

_WATCHED = """
import sys
from narval.surfaces.cli import main
main(["--home", sys.argv[1], "runs", "--json"], standalone_mode=False)
heavy = {"asyncio", "lxml", "sqlalchemy", "elementpath", "rich", "alembic", "psutil"}
heavy |= {"narval.runtime.daemon.daemon"}
print(sorted(heavy & set(sys.modules)), file=sys.stderr)
"""


_AT_WORK = """
import sys
from narval.surfaces.cli import main
main(["--home", sys.argv[1], "run", "--until-idle"], standalone_mode=False)
needless = {"sqlalchemy", "alembic", "elementpath", "rich", "email", "imap_tools", "feedparser", "httpx2"}
needless |= {f"narval.surfaces.cli.{name}" for name in ("automaton", "homes", "memory", "simulate", "tokens")}
print(sorted(needless & set(sys.modules)), file=sys.stderr)
"""


def test_a_daemon_starts_without_what_it_may_never_need(tmp_path: Path) -> None:
    home = Home.create(tmp_path / "home", bare=True)
    done = subprocess.run(
        [sys.executable, "-c", _AT_WORK, str(home.path)], capture_output=True, text=True, check=False
    )
    assert done.stderr == "[]\n"
    assert " is ready: " in done.stdout


def test_asking_a_daemon_imports_nothing_heavy(home: Path) -> None:
    with daemon(home):
        done = subprocess.run([sys.executable, "-c", _WATCHED, str(home)], capture_output=True, check=False)
    assert json.loads(done.stdout) == []
    assert done.stderr.decode() == "[]\n"
