"""Field paths: the fields and names that the steps of a path ask for, whatever prefixes a pattern uses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from narval.core.patterns.field import Field, attribute_field, path_field
from narval.core.patterns.syntax import PathStep

_XML = "http://www.w3.org/XML/1998/namespace"
_FIELD_AXES = ("child", "attribute", "descendant")
_ANYWHERE_BELOW = ("descendant-or-self", "node()")
_PLAIN_NAME = re.compile(r"[^*()]+")


def field_of(steps: Sequence[PathStep], namespaces: Mapping[str, str]) -> Field | None:
    """The field that steps without predicates lead to; None when there is none."""
    if len(steps) == 1 and steps[0].axis == "attribute" and not steps[0].predicates:
        name = name_of(steps[0].test, namespaces)
        if name is not None:
            return attribute_field(name)
    prefixes: dict[str, str] = {}
    written = [_written(step, namespaces, prefixes) for step in steps]
    if None in written:
        return None
    return path_field("/".join(filter(None, written)) or ".", tuple(prefixes.items()))


def _written(step: PathStep, namespaces: Mapping[str, str], prefixes: dict[str, str]) -> str | None:
    """A step in the spelling common to all shapes, its prefix renamed; None when no field has it."""
    if step.predicates:
        return None
    if (step.axis, step.test) == _ANYWHERE_BELOW:
        return f"{step.axis}::{step.test}"
    if step.axis not in _FIELD_AXES or (step.test.endswith(")") and step.test != "text()"):
        return None
    prefix, colon, local = step.test.partition(":")
    if not colon:
        return f"{step.axis}::{step.test}"
    namespace = _namespace(prefix, namespaces)
    if namespace is None:
        return None
    ours = f"n{len(prefixes)}"
    prefixes[ours] = namespace
    return f"{step.axis}::{ours}:{local}"


def name_of(test: str, namespaces: Mapping[str, str]) -> str | None:
    """The name that a node test asks for, as lxml writes it; None when it asks for something else."""
    if not _PLAIN_NAME.fullmatch(test):
        return None
    prefix, colon, local = test.partition(":")
    if not colon:
        return test
    namespace = _namespace(prefix, namespaces)
    return None if namespace is None else f"{{{namespace}}}{local}"


def _namespace(prefix: str, namespaces: Mapping[str, str]) -> str | None:
    return _XML if prefix == "xml" else namespaces.get(prefix)
