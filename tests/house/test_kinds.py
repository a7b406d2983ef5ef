"""A kind is a folder and a row: nothing else knows its name, and without both the rest goes on."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from narval.core.kinds import KINDS
from tests.house.code import PACKAGE, modules, nodes
from tests.house.rooms import kind_of
from tests.places import ROOT

RUN = {name: kind.run for name, kind in KINDS.items() if kind.run}
"""The kinds that are run: the name of their definitions and of their runs."""

ALLOWED: dict[str, str] = {
    "narval.core.kinds": "the table",
    "narval.core.definitions.action.parser": "$plan is a variable of patterns",
    "narval.core.definitions.telling.patterns": "$plan is a variable of patterns",
    "narval.core.definitions.transform.parser": "$plan is a variable of patterns",
    "narval.core.elements.names": "recipe is an attribute of start-plan, and runs have elements",
    "narval.files.allowed_files": "work is a folder of a home",
    "narval.kinds.dataflow.cli": "a dataflow is called a plan in its file",
    "narval.kinds.automaton.language.parser": "a state without a kind calls a recipe",
    "narval.system.scripts.interpreters": "scripts know their process by that name",
    "narval.files.people_file": "work is what a rule of the home asks",
    "narval.files.trust_file": "recipe is a key of a rule, for any definition",
    "narval.ask.memory.trust": "recipe is a key of a rule, for any definition",
    "narval.surfaces.cli.elements": "recipe is a key of a rule, for any definition",
    "narval.people.files": "people are asked by work",
    "narval.people.mail.channel": "people are asked by work",
    "narval.trials.simulate.parser": "recipe is an attribute of scenarios, for any definition",
    "narval.trials.simulate.names": "recipe and work are attributes of scenarios",
    "narval.trials.simulate.scenario_events": "people answer work in scenarios",
    "narval.surfaces.cli": "the order in which help shows commands",
    "narval.surfaces.chat.commands": "people see by a command what they are asked",
    "narval.surfaces.cli.memory": "a home is opened to work",
    "narval.surfaces.cli.session": "a home is opened to work",
    "narval.surfaces.python.task": "programs in Python work as tasks",
}
"""Other modules that may name a kind, and why."""


def test_a_kind_is_named_in_its_own_folder_alone() -> None:
    wrong = [
        f"{module}:{node.lineno} {node.value!r}"
        for module, path in modules().items()
        if module not in ALLOWED
        for node in nodes(path, ast.Constant)
        if isinstance(node.value, str)
        for kind, run in RUN.items()
        if node.value in (kind, run) and kind_of(module) != kind
    ]
    assert wrong == []


def test_no_exception_is_left_that_is_not_needed() -> None:
    names = {word for pair in RUN.items() for word in pair}
    needed = {
        module
        for module, path in modules().items()
        if any(node.value in names for node in nodes(path, ast.Constant) if isinstance(node.value, str))
    }
    assert sorted(set(ALLOWED) - needed) == []


MODULE = """
from narval import action

@action(runs="inline")
def tick(): pass
"""
RECIPE = """<recipe group="g" name="r" start_step="a" end_step="a">
  <step id="a" type="action" target="m.tick"/>
</recipe>"""

REST = """
import importlib, os, pkgutil, sys
from contextlib import suppress

for name in ("elementpath", "mcp", "psycopg", "slixmpp"):  # what takes longest to import, and knows no kind
    with suppress(ImportError):
        importlib.import_module(name)
for folder in sys.argv[1:]:
    if (child := os.fork()) == 0:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
else:
    sys.exit()

os.chdir(folder)
with open("told", "w") as told, open(os.devnull, "w") as nowhere:
    os.dup2(nowhere.fileno(), 1)
    os.dup2(told.fileno(), 2)
import narval
from narval.ask.operations import OPERATIONS
from narval.core.kinds import KINDS
from narval.surfaces.cli import COMMANDS, main

assert os.path.samefile(os.path.dirname(narval.__file__), "narval")
assert os.path.basename(folder) not in KINDS
for module in pkgutil.walk_packages(narval.__path__, "narval."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
assert all([OPERATIONS[name] for name in OPERATIONS]) and all([COMMANDS[name] for name in COMMANDS])
with narval.open("home") as agent:
    run = agent.start("g.r")
    agent.until_idle()
    assert agent.run(run)["state"] == "done", agent.run(run)
main(["--home", "home", "check"])
"""

REMOVED = [kind for kind in RUN if kind not in ("recipe", "work")]
"""Each kind but `work`, which is what people are asked, and `recipe`, which the rest is tried with."""


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """How the check of a home ends, and what it tells, without each kind: in forks of one program."""
    parent = tmp_path_factory.mktemp("without")
    folders = [remove(kind, parent / kind) for kind in REMOVED]
    words = [sys.executable, "-c", REST, *map(str, folders)]
    done = subprocess.run(words, cwd=parent, capture_output=True, text=True, check=True)
    told = [(folder / "told").read_text(encoding="utf-8") for folder in folders]
    return dict(zip(REMOVED, zip(done.stdout.split(), told, strict=True), strict=True))


@pytest.mark.parametrize("kind", REMOVED)
def test_the_rest_goes_on_without_a_kind(ends: dict[str, tuple[str, str]], kind: str) -> None:
    assert ends[kind] == ("0", "no faults\n")


def remove(kind: str, folder: Path) -> Path:
    """Put narval without a kind into a folder, and a home with a recipe."""
    # with what is compiled: compiling it again takes longest
    shutil.copytree(PACKAGE, folder / "narval")
    shutil.rmtree(folder / "narval" / "kinds" / kind)
    table = folder / "narval" / "core" / "kinds.py"
    table.write_text(without_row(table.read_text(encoding="utf-8"), kind), encoding="utf-8")
    (folder / "narval" / "home").mkdir()
    for name in ("recipes", "modules", "data", "etc", "scenarios", "agents"):
        (folder / "narval" / "home" / name).symlink_to(ROOT / name)
    home = folder / "home"
    for part, name, text in (("recipes", "r.xml", RECIPE), ("modules", "m.py", MODULE)):
        (home / part).mkdir(parents=True)
        (home / part / name).write_text(text)
    (home / "etc").mkdir()
    return folder


def without_row(text: str, kind: str) -> str:
    """The table of kinds without a row."""
    lines = text.splitlines(keepends=True)
    (table,) = (
        node.value
        for node in ast.parse(text).body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.value, ast.Dict)
        and ast.unparse(node.target) == "KINDS"
    )
    for key, row in zip(table.keys, table.values, strict=True):
        if isinstance(key, ast.Constant) and key.value == kind:
            del lines[key.lineno - 1 : row.end_lineno]
    return "".join(lines)
