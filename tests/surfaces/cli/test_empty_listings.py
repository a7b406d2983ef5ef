"""Whatever a command lists: where there is nothing, it says so, and its JSON is empty."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.house.operations_page import all_commands
from tests.surfaces.cli.command_line import make_home, narval, run_of, well

ACTING = {
    "init", "run", "stop", "reload", "web", "web log-in", "backup", "service", "automaton", "dataflow",
    "simulate", "explore", "completion", "collection publish",
}  # fmt: skip
"""Commands without a needed argument that list nothing: they would begin something."""

PROCESS = '<process-definition name="order"><node name="enter" isStart="true"/></process-definition>'

NARROWED = [
    ("runs", "--state", "failed"), ("runs", "--before", 1), ("memory", "--before", 1), ("memory", "nothing"),
    ("memory", "--facets"), ("agents", "--after", "zzz"), ("letters", "--dead"), ("errors", "--all"),
    ("remembered", "pages"), ("log", "--lines", 0), ("task", "events"), ("work", "--all"), ("work", "log"),
]  # fmt: skip
OF_A_RUN = [
    ("history", "RUN", "--before", 1), ("history", "RUN", "--replay", "--after", 9999), ("timeline", "RUN"),
    ("tokens", "RUN"), ("environment", "RUN"),
]  # fmt: skip
"""What is listed of a run, and the part of it that is empty."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with no run, and no element but those that it declares."""
    return make_home(tmp_path_factory.mktemp("empty") / "home")


def listings() -> list[tuple[object, ...]]:
    """All commands that may be given without an argument, and begin nothing."""
    names = [name for name, command in all_commands() if not any(each.required for each in command.params)]
    return [tuple(name.split()) for name in names if name not in ACTING]


def says_what_is_empty(home: Path, words: tuple[object, ...]) -> bool:
    """True if a command finds something, or says that there is nothing."""
    shown = narval(home, *words, "--json")
    if shown.exit_code not in (0, 1) or not shown.stdout.startswith(("[", "{")):
        return True
    assert shown.stderr == ""
    answer = json.loads(shown.stdout)
    if answer and not (isinstance(answer, dict) and [] in answer.values()):
        return True
    return bool(narval(home, *words).output.strip())


@pytest.mark.parametrize("words", [*listings(), *NARROWED], ids=lambda words: " ".join(map(str, words)))
def test_a_listing_without_rows_says_so(home: Path, words: tuple[object, ...]) -> None:
    assert says_what_is_empty(home, words)


@pytest.mark.parametrize("words", OF_A_RUN, ids=lambda words: " ".join(map(str, words)))
def test_what_is_empty_of_a_run_is_said_to_be(tmp_path: Path, words: tuple[object, ...]) -> None:
    home = make_home(tmp_path / "home")
    (home / "recipes" / "desk.xml").write_text(PROCESS)
    name = "desk.order" if words[0] in ("tokens", "environment") else "demo.await"
    well(home, "start", name)
    run = run_of(home, name)
    assert says_what_is_empty(home, tuple(run if word == "RUN" else word for word in words))
