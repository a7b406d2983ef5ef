"""Completion as a shell asks for it: of what the home knows, or of nothing, and never an error."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from narval.surfaces.cli import completion, main
from tests.house.operations_page import all_commands
from tests.surfaces.cli.command_line import NAME, daemon, make_home, narval, run_of, well

NAMES = (
    "run",
    "eid",
    "eids",
    "replace",
    "person",
    "item",
    "incident",
    "letter",
    "case",
    "agent",
    "old",
    "new",
)
"""The parameters of commands that are names or numbers of what a home has."""

PROCESS = """\
<process-definition name="order">
  <node name="enter" type="wait" isStart="true"><arc to="bill"/><arc to="ship"/></node>
  <node name="bill" type="wait"/>
  <node name="ship" type="wait"/>
</process-definition>
"""
SCENARIO = '<scenario memory="empty"><start recipe="demo.await"/></scenario>'


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with runs that are done, failed and waiting, and a process whose first node is complete."""
    home = make_home(tmp_path_factory.mktemp("place") / "home")
    (home / "recipes" / "desk.xml").write_text(PROCESS)
    (home / "scenarios").mkdir()
    (home / "scenarios" / "morning.scenario.xml").write_text(SCENARIO)
    well(home, "start", "demo.greet", "-", "--wait", given=NAME)
    assert narval(home, "start", "demo.fail", "--wait").exit_code == 1
    well(home, "start", "demo.await")
    well(home, "start", "desk.order")
    assert narval(home, "run", "--until-idle").exit_code == 0
    well(home, "complete", run_of(home, "desk.order"), "enter")
    assert narval(home, "run", "--until-idle").exit_code == 0
    return home


@pytest.fixture(scope="module")
def served(place: Path) -> Iterator[Path]:
    """That home with a daemon."""
    with daemon(place):
        yield place


def limited(**limits: float) -> str:
    """The program with other limits of completion, in seconds."""
    given = "".join(f"completion.{name} = {seconds}\n" for name, seconds in limits.items())
    return f"from narval.surfaces.cli import completion, main\n{given}main(prog_name='narval')\n"


PATIENT = limited(ANSWERED_WITHIN=60, LOOKED_WITHIN=60)
"""What is chosen shall not depend on how fast the machine is."""


def completed(home: Path, *words: object, shell: str = "bash") -> Result:
    """What a shell is told when the last of the words is completed: within this program, which is faster."""
    with pytest.MonkeyPatch.context() as patient:
        patient.setattr(completion, "ANSWERED_WITHIN", 60.0)
        patient.setattr(completion, "LOOKED_WITHIN", 60.0)
        return CliRunner().invoke(main, [], env=asked(home, words, shell), prog_name="narval")


def asked(home: Path, words: tuple[object, ...], shell: str) -> dict[str, str]:
    """The environment in which a shell asks for the last of the words."""
    line = ["narval", "--home", str(home), *map(str, words)]
    numbers = {"COMP_WORDS": " ".join(line), "COMP_CWORD": str(len(line) - 1)}
    return {**numbers, "_NARVAL_COMPLETE": f"{shell}_complete"}


def choices(home: Path, *words: object, program: str = "") -> list[str]:
    """What there is to choose from, as this program tells it or one of its own."""
    if program:
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **asked(home, words, "bash")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        output = done.stdout
    else:
        result = completed(home, *words)
        assert (result.exit_code, result.stderr) == (0, ""), result.exception
        output = result.stdout
    return [line.removeprefix("plain,") for line in output.splitlines() if line]


def test_a_run_is_chosen_from_the_newest_that_the_command_can_take(served: Path) -> None:
    greet, fail, wait = (run_of(served, f"demo.{name}") for name in ("greet", "fail", "await"))
    order = run_of(served, "desk.order")
    every = [str(run) for run in (order, wait, fail, greet)]
    for command in ("show", "history", "why", "retry"):
        assert choices(served, command, "") == every
    assert choices(served, "memory", "--context", "") == every
    for command in ("cancel", "signal"):
        assert choices(served, command, "") == [str(order), str(wait)]
    for command in ("complete", "backtrack", "tokens", "environment"):
        assert choices(served, command, "") == [str(order)]
    begun = str(wait)[0]
    assert choices(served, "show", begun) == [run for run in every if run.startswith(begun)]


def test_a_run_that_is_cancelled_by_name_is_one_that_is_active(served: Path) -> None:
    assert choices(served, "cancel", "--name", "de") == ["desk.order", "demo.await"]


def test_shells_that_show_it_are_told_name_and_state(served: Path) -> None:
    failed = run_of(served, "demo.fail")
    assert f"plain\n{failed}\ndemo.fail failed\n" in completed(served, "show", "", shell="zsh").stdout


def test_definitions_that_can_be_started_are_chosen_by_name(served: Path) -> None:
    assert choices(served, "start", "demo.") == ["demo.await", "demo.fail", "demo.greet", "demo.slow"]
    assert choices(served, "runs", "--name", "de") == [
        "desk.order", "demo.await", "demo.fail", "demo.greet", "demo.slow",
    ]  # fmt: skip
    assert choices(served, "simulate", "mor") == ["morning"]
    assert choices(served, "simulate", "demo.f") == ["demo.fail"]
    assert choices(served, "simulate", "./x") == ["file,./x"]
    assert choices(served, "start", "talk.") == []  # actions are called


def test_states_and_kinds_are_chosen(served: Path) -> None:
    assert choices(served, "runs", "--state", "f") == ["failed", "failed-end"]
    assert choices(served, "runs", "--waiting-for", "p") == ["person"]
    assert choices(served, "runs", "--kind", "pl") == ["plan", "plan-undo"]


def test_the_parts_of_a_run_are_chosen_once_it_is_named(served: Path) -> None:
    run, order = run_of(served, "demo.await"), run_of(served, "desk.order")
    assert choices(served, "why", run, "") == ["begin", "end", "answered"]
    assert choices(served, "why", order, "") == ["bill", "enter", "ship"]
    assert choices(served, "retry", run, "--from", "") == ["begin", "end"]
    assert sorted(choices(served, "complete", order, "")) == ["bill", "ship"]
    assert choices(served, "backtrack", order, "") == ["enter"]
    assert choices(served, "complete", order, "--token", "") == ["5", "4", "1"]
    assert choices(served, "why", 99999, "") == []


def test_without_a_daemon_the_home_is_looked_at(home: Path) -> None:
    well(home, "start", "demo.await")
    assert set(choices(home, "start", "demo.")) == {"demo.await", "demo.fail", "demo.greet", "demo.slow"}
    assert choices(home, "show", "") == [str(run_of(home, "demo.await"))]


def test_a_home_that_never_ran_is_left_as_it_is(home: Path) -> None:
    before = sorted(home.rglob("*"))
    assert choices(home, "show", "") == []
    assert sorted(home.rglob("*")) == before


def test_where_there_is_no_home_there_is_nothing_to_choose(tmp_path: Path) -> None:
    assert choices(tmp_path / "nowhere", "show", "") == []
    assert choices(tmp_path / "nowhere", "sho", program="import narval.__main__ as it; it.main()") == ["show"]
    assert not (tmp_path / "nowhere").exists()


def test_a_daemon_that_is_silent_is_not_waited_for(home: Path) -> None:
    with daemon(home) as running:
        running.send_signal(signal.SIGSTOP)
        assert choices(home, "show", "", program=limited(LOOKED_WITHIN=3600)) == []
    assert completion.ANSWERED_WITHIN <= 0.5


def test_a_look_that_takes_too_long_is_given_up(home: Path) -> None:
    slow = (
        "import time\n"
        "from narval.surfaces.cli.session import Session\n"
        "Session.ask = lambda *_, **__: time.sleep(3600)\n"
    )
    assert choices(home, "show", "", program=slow + limited(LOOKED_WITHIN=0.2)) == []


def test_bash_completes_a_line(served: Path, tmp_path: Path) -> None:
    program = tmp_path / "narval"
    program.write_text(f"#!{sys.executable}\n{PATIENT}")
    program.chmod(0o755)
    script = (
        'eval "$(narval completion bash)"\n'
        "COMP_WORDS=(narval start demo.g) COMP_CWORD=2\n"
        'function=$(complete -p narval | sed -E "s/.*-F ([^ ]+).*/\\1/")\n'
        "$function narval demo.g start\n"
        'echo "${COMPREPLY[@]}"\n'
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "NARVAL_HOME": str(served)}
    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("demo.greet\n", "")


def test_each_argument_that_names_something_of_the_home_is_completed() -> None:
    left = {
        f"{name} {parameter.name}"
        for name, command in all_commands()
        for parameter in command.params
        if parameter.name in NAMES and getattr(parameter, "_custom_shell_complete") is None  # noqa: B009 - click's
    }
    assert left == set()


def test_elements_versions_and_people_are_chosen(served: Path) -> None:
    newest = well(served, "add", "-", given="<parcel/>").strip()
    for command in ("element", "outdate"):
        assert newest in choices(served, command, "")
    assert choices(served, "add", "--replace", newest) == [newest]
    (incident,) = choices(served, "errors", "show", "")
    assert choices(served, "errors", "acknowledge", incident[:3]) == [incident]
    (version,) = choices(served, "definitions", "demo.greet", "--diff", "")
    assert len(version) == 64
    assert choices(served, "edit", "demo.greet", "--take-back", "") == []  # it was not edited yet
    file = served / "recipes/demo.xml"
    well(served, "edit", "demo.greet", "-", given=f"<!-- anew -->\n{file.read_text()}")
    assert choices(served, "edit", "demo.greet", "--take-back", "") == ["e1"]
    owner = choices(served, "web", "login", "")
    assert len(owner) == 1
    assert choices(served, "work", "--person", "") == choices(served, "work", "folder", "") == owner
    order = run_of(served, "desk.order")
    well(served, "environment", order, "--set", "shelf=7", "--set", "by=Ben")
    assert choices(served, "environment", order, "s") == ["shelf"]


def test_what_ships_is_completed_for_diff_and_take(place: Path) -> None:
    assert "modules/talk.py" in completed(place, "diff", "modules/").stdout
    assert set(completed(place, "take", "ma").stdout.split()) == {"plain,mail"}


def test_G32_agents_and_dead_letters_are_chosen(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    well(home, "agents", "add", "ada")
    well(home, "send", "ada", "-", given="<letter/>")
    well(home, "agents", "remove", "ada")
    well(home, "agents", "add", "bob")
    assert choices(home, "send", "") == ["narval", "bob"]
    assert choices(home, "letters", "resend", "") == ["1"]


def test_labels_are_those_that_the_home_can_give(served: Path) -> None:
    assert {"mail", "web", "unknown"} <= {*choices(served, "check", "--from", "")}
    assert choices(served, "check", "--from", "ma") == ["mail"]
