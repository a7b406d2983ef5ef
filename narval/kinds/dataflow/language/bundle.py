"""Bundle: a plan and everything that it calls, as one text that the store keeps and memory shows (N2).

    // a dataflow and all that it calls
    // file 120 recipes/flats.plan
    PLAN HomeSeekers {…}

The number is the count of characters after its line. The first plan is the one that runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from lxml import etree

from narval.core.elements.canonical import canonical
from narval.kinds.dataflow.language.grammar import PROPERTIES
from narval.kinds.dataflow.language.operators import Operator
from narval.kinds.dataflow.language.syntax import ALIASES, GROUP, PlanSource

BUNDLE = "// a dataflow and all that it calls"

_PART = re.compile(r"// file (\d{1,9}) ([^\n]*)\n")


def bundled(parts: Iterable[tuple[PlanSource, Iterable[Operator]]]) -> str:
    """Bundle these plans, each with the operators of modules that it calls."""
    text = [BUNDLE, "\n"]
    for source, operators in parts:
        declared = {one.name.lower(): one.text for one in source.declared}
        declared.update((found.name.lower(), declaration_of(found)) for found in operators)
        head = [f"{GROUP}{source.group}"] * bool(source.group) + [ALIASES] * source.aliases
        lines = [*head, *declared.values(), source.syntax.text]
        part = "\n".join(lines) + "\n"
        path = source.path.replace("\n", " ")
        text.append(f"// file {len(part)} {path}\n{part}")
    return "".join(text)


def parts_of(text: str) -> Iterator[tuple[str, str]]:
    """The path and text of each part of a bundle."""
    at = len(BUNDLE) + 1
    while found := _PART.match(text, at):
        at = found.end() + int(found[1])
        yield found[2], text[found.end() : at]


def declaration_of(operator: Operator) -> str:
    """An operator of a module, written as a declaration in a file."""
    inputs, outputs = (
        ", ".join(f"{port.type} {port.name}{'*' * port.many}" for port in ports)
        for ports in (operator.inputs, operator.outputs)
    )
    words = {name: word for word, name in PROPERTIES.items()}
    properties = [
        f"{words[name]}: yes;"
        for name in ("reentrant", "parallelizable", "io", "conditional")
        if getattr(operator, name)
    ]
    properties += ["BLOCKING: yes;"] * (operator.kind == "B")
    properties += [f"GRANULARITY: {operator.granularity};"] * bool(operator.granularity)
    return f"OPERATOR {operator.name} {{ INPUT: {inputs}; OUTPUT: {outputs}; {' '.join(properties)} }}"


def element_of(source: PlanSource, text: str) -> bytes:
    """The element for a plan in memory: its bundle, with its name."""
    root = etree.Element("dataflow", {"name": source.syntax.name, "group": source.place.group})
    root.text = text
    return canonical(root)
