"""A kind is a package in `definitions`, one in `engines`, and a row: nothing else knows its name."""

from __future__ import annotations

import ast
import re

from narval.core.definitions.kinds import KINDS
from tests.house.code import imports, modules, tree

RUN = {name: kind.run for name, kind in KINDS.items() if kind.engine}
"""The kinds that are run: the name of their definitions and of their runs."""

OWN_ROOMS: dict[str, str] = {
    "task": r"narval\.(engines\.task_(server|case)|operations\.tasks|surfaces\.(python|cli)\.tasks?)(\.|$)"
    r"|narval\.(task|simulation\.tasks)$",
    "process": r"narval\.runtime\.calls\.process_code(\.|$)|narval\.operations\.processes$"
    r"|narval\.surfaces\.(python\.processes|cli\.tokens)$",
    "automaton": r"narval\.surfaces\.cli\.foreground\.automaton$",
    "dataflow": r"narval\.runtime\.calls\.flow(\.|$)|narval\.surfaces\.cli\.foreground\.dataflow$",
    "work": r"narval\.(operations\.work|surfaces\.(python|cli)\.work|runtime\.calls\.people)(\.|$)"
    r"|narval\.simulation\.work$",
}
"""The rooms of a kind beyond its two packages: the acts that it alone has."""

ALLOWED: dict[str, str] = {
    "narval.core.definitions.kinds": "the table",
    "narval.core.definitions.action.parser": "$plan is a variable of patterns (N10)",
    "narval.core.definitions.transform.parser": "$plan is a variable of patterns (N10)",
    "narval.kinds.automaton.language.parser": "a state without a kind calls a recipe (A15)",
    "narval.core.elements.control_elements": "recipe is an attribute of start-plan (N4)",
    "narval.core.elements.reserved": "their elements come from narval alone (N2)",
    "narval.system.scripts.interpreters": "scripts know their process by that name (section 10)",
    "narval.trials.simulate.parser": "recipe is an attribute of scenarios, for any definition",
    "narval.trials.simulate.names": "recipe and work are attributes of scenarios",
    "narval.files.people_file": "work is what a rule of the home asks (P73)",
    "narval.surfaces.cli": "automaton and dataflow are commands",
    "narval.kinds.dataflow.cli.foreground": "a dataflow is called a plan in its file",
    "narval.surfaces.cli.memory": "a home is opened to work",
    "narval.surfaces.cli.session": "a home is opened to work",
}
"""Other modules that may name a kind, and why."""


def test_a_kind_is_imported_in_its_own_rooms_alone() -> None:
    wrong = [
        str(found)
        for found in imports()
        for kind in RUN
        if re.match(rf"narval\.(definitions|engines)\.{kind}(\.|$)", found.imported)
        and not is_room(found.importer, kind)
        and found.importer not in ALLOWED
    ]
    assert wrong == []


def test_a_kind_is_named_in_its_own_rooms_alone() -> None:
    wrong = [
        f"{module}:{node.lineno} {node.value!r}"
        for module, path in modules().items()
        if module not in ALLOWED
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for kind, run in RUN.items()
        if node.value in (kind, run) and not is_room(module, kind)
    ]
    assert wrong == []


def is_room(module: str, kind: str) -> bool:
    """Test whether a module belongs to a kind."""
    return bool(
        re.match(rf"narval\.(definitions|engines)\.{kind}(\.|$)", module)
        or (kind in OWN_ROOMS and re.match(OWN_ROOMS[kind], module))
    )
