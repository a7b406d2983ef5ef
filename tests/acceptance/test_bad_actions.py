"""Each kind of bad action costs its step alone, and leaves an error that a person understands."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.home import Narval, make, one_step

MODULE = '''
import os, signal, sys, time
from narval import Input, Output, action

@action
def raises():
    raise ValueError("no such folder: inbox")

@action(runs="worker")
def raises_in_worker():
    raise ValueError("no such folder: inbox")

@action(runs="worker")
def hangs():
    time.sleep(3600)

@action
def hangs_in_thread():
    time.sleep(20)

@action(outputs=[Output("answer", "answer")])
def rubbish():
    return "<answer"

@action(outputs=[Output("answer", "answer")])
def number():
    return 42

@action(outputs=[Output("answer", "answer")])
def undeclared():
    return "<surprise/>"

@action(outputs=[Output("answer", "answer")])
def forgotten():
    return None

@action(outputs=[Output("answer", "answer")])
def bomb():
    return """<!DOCTYPE a [<!ENTITY b "bbbbbbbbbb"><!ENTITY c "&b;&b;&b;&b;&b;&b;">]><answer>&c;</answer>"""

@action(outputs=[Output("answer", "answer")])
def deep():
    return "<answer>" + "<a>" * 10_000 + "</a>" * 10_000 + "</answer>"

@action(outputs=[Output("answer", "answer")])
def huge():
    return "<answer>" + "x" * 100_000_000 + "</answer>"

@action(outputs=[Output("answer", "answer")])
def not_utf8():
    return b"<answer>\\xff\\xfe</answer>"

@action(outputs=[Output("answer", "answer")])
def control():
    return "<answer>\\x00\\x1b</answer>"

@action
def exits():
    sys.exit(3)

@action(runs="inline")
def exits_inline():
    sys.exit(3)

@action(runs="worker")
def exits_worker():
    os._exit(3)

@action(runs="worker")
def killed():
    os.kill(os.getpid(), signal.SIGKILL)

@action(runs="worker")
def recurses():
    return recurses()

@action(runs="inline")
def prints():
    print("here is what I think")
    sys.stderr.write("and here is more")

@action(runs="worker")
def prints_in_worker():
    print("said in a worker")

@action(runs="inline")
def nothing():
    return None
'''
STEP_ERRORS = {
    # action: type of the error, and what its message says
    "raises": ("ValueError", "no such folder: inbox"),
    "raises_in_worker": ("ValueError", "no such folder: inbox"),
    "hangs": ("timeout", "1"),
    "hangs_in_thread": ("timeout", "1"),
    "rubbish": ("bad-output", ""),
    "number": ("bad-output", "int"),
    "undeclared": ("bad-output", "surprise"),
    "forgotten": ("bad-output", "output answer (answer) is missing"),
    "bomb": ("bad-output", "DOCTYPE"),
    "deep": ("bad-output", "deep"),
    "huge": ("bad-output", ""),
    "not_utf8": ("bad-output", ""),
    "control": ("bad-output", ""),
    "exits": ("SystemExit", "3"),
    "exits_inline": ("SystemExit", "3"),
    "exits_worker": ("crashed", "3"),
    "killed": ("crashed", "SIGKILL"),
    "recurses": ("RecursionError", "recursion"),
}
FINE = ("prints", "prints_in_worker", "nothing")


def _time_of(action: str) -> str:
    """A time limit for those that would not come back by themselves."""
    return 'timeout="1"' if action.startswith("hangs") else ""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Narval:
    """A home whose plans have been run, each of one bad action; the daemon is ended."""
    names = [*STEP_ERRORS, *FINE]
    recipes = "".join(one_step(f"do_{name}", f"w.{name}", _time_of(name)) for name in names)
    starts = "".join(f'<start-plan recipe="w.do_{name}"/>' for name in names)
    narval = make(
        tmp_path_factory.mktemp("bad") / "home",
        module=MODULE,
        recipes=f"<cookbook>{recipes}</cookbook>",
        memory=f"<memory>{starts}<precious/></memory>",
    )
    done = narval("run", "--until-idle", "--timeout", "120")
    assert (done.returncode, b"idle after" in done.stdout) == (1, True), done.stderr.decode()
    narval.write("output", done.stdout + done.stderr)
    return narval


@pytest.fixture(scope="module")
def runs(home: Narval) -> dict[str, Any]:
    """The runs by name."""
    return {run["name"]: run for run in home.ask("runs", "--limit", "all")}


def test_a_bad_action_costs_its_step_alone(home: Narval, runs: dict[str, Any]) -> None:
    assert {name: run["state"] for name, run in runs.items()} == {
        **{f"w.do_{name}": "failed" for name in STEP_ERRORS},
        **{f"w.do_{name}": "done" for name in FINE},
    }
    assert home("memory", "precious").returncode == 0


@pytest.mark.parametrize(("action", "expected"), STEP_ERRORS.items())
def test_a_bad_action_leaves_an_error_a_person_understands(
    runs: dict[str, Any], action: str, expected: tuple[str, str]
) -> None:
    error = runs[f"w.do_{action}"]["error"]
    assert (error["type"], error["step"]) == (expected[0], "s")
    assert expected[1].lower() in error["message"].lower()
    assert len(error["message"]) < 1000


@pytest.mark.parametrize(
    ("action", "detail"),
    [
        ("undeclared", "w.undeclared: it gave <surprise/>"),
        ("forgotten", "w.forgotten: it gave nothing"),
        ("number", "w.number"),
    ],
)
def test_a_bad_output_has_the_place_of_its_action(
    runs: dict[str, Any], home: Narval, action: str, detail: str
) -> None:
    lines = MODULE.splitlines()
    place = f"modules/w.py:{lines.index(f'def {action}():') + 1} {detail}"
    (error,) = home.ask("memory", f"error[@action='w.{action}']")
    assert f"<detail>{place.replace('<', '&lt;').replace('>', '&gt;')}</detail>" in error["xml"]


def test_what_actions_print_is_in_the_log_and_not_among_the_output_of_the_daemon(home: Narval) -> None:
    messages = [line["message"] for line in home.ask("log", "--lines", "1000")]
    assert "here is what I think" in messages
    assert "and here is more" in messages
    assert "said in a worker" in messages
    output = (home.home / "output").read_text()
    assert "what I think" not in output
    assert "and here is more" not in output
    assert "said in a worker" not in output
