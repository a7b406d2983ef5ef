"""The page of what Python has: the names of `narval`, those of an open home, of a client, of tests."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, get_overloads

import narval
from narval.surfaces.control.client import Client
from narval.surfaces.python.agent import Agent
from tests.house.pages.tables import without_citations

PATH = "reference/python.md"

HEAD = """\
# Python

Made from signatures and docstrings by `python -m tests.house.pages`; a test compares. These names are what
[modules of actions](module.md) and programs may use: `from narval import action, Input, Output`. For modules
there are also the names of [`narval.api`](api.md). Anything else in the package may change.
"""

OF_MODULES = ("action", "Input", "Output", "Element", "fits", "ActionError", "NarvalError")
IN_CALLS = tuple(
    name
    for name in (
        "call", "now", "sleep", "fetch", "Fetched", "FetchError", "service", "Service", "Message",
    )
    if name in narval.__all__
)  # fmt: skip
OF_PROGRAMS = ("open", "run_dataflow", "FlowEvent", "FaultWarning", "SimulatedClock")

ANNOTATIONS = {
    "narval.Rubric": "Annotates a property whose text gives its value in Rubric: `until: Rubric[date]`."
}
"""The names that are no classes and no functions, and what they are for."""

INNER = ("self", "daemon", "asker")
"""Parameters of methods that nobody gives: an agent gives them to the operation that it forwards to."""

WIDTH = 80


def lines() -> Iterator[str]:
    """The lines of the page."""
    yield HEAD
    others = [name for name in narval.__all__ if name not in {*OF_MODULES, *IN_CALLS, *OF_PROGRAMS}]
    for title, names in (
        ("In modules", OF_MODULES),
        ("Within a call", IN_CALLS),
        ("In programs", OF_PROGRAMS),
        ("For the code of processes and dataflows", others),
    ):
        yield f"## {title}\n"
        for name in names:
            yield from told(f"narval.{name}", getattr(narval, name))
    yield "## An open home\n\n`with narval.open(home) as agent:` gives an agent with these.\n"
    yield from methods("agent", Agent)
    yield "## A client\n\n`narval.surfaces.control.client.Client(path)` asks a daemon by its socket.\n"
    yield from methods("client", Client)
    yield "## Programs that work as tasks\n\n`from narval import task`; explained under [tasks](tasks.md).\n"
    from narval import task

    for name, value in sorted(vars(task).items()):
        if not name.startswith("_") and getattr(value, "__module__", "") == task.__name__:
            yield from told(f"task.{name}", value)


def methods(name: str, of: Any) -> Iterator[str]:
    """The public methods and properties of a class, in the order of their definition."""
    for attribute, value in vars(of).items():
        if not attribute.startswith("_") and (inspect.isroutine(value) or isinstance(value, property)):
            yield from told(
                f"{name}.{attribute}", getattr(of, attribute) if isinstance(value, classmethod) else value
            )


def told(name: str, value: Any) -> Iterator[str]:
    """A name with its signature and its docstring."""
    yield f"### `{name}`\n"
    if signature := signature_of(value):
        awaited = "await " if inspect.iscoroutinefunction(value) else ""
        yield f"```python\n{awaited}{name}{signature}\n```\n"
    if isinstance(value, property) or inspect.isroutine(value) or inspect.isclass(value):
        yield f"{docstring(value)}\n"
    else:
        yield f"{ANNOTATIONS[name]}\n"


def signature_of(value: Any) -> str:
    """The signature of what can be called by hand, or ""."""
    if not (inspect.isroutine(value) or inspect.isclass(value)):
        return ""
    if isinstance(value, type) and issubclass(value, BaseException) and "__init__" not in vars(value):
        return ""
    signature = inspect.signature(value)
    if any(given.kind is given.VAR_KEYWORD for given in signature.parameters.values()):
        signature = inspect.signature([value, *get_overloads(value)][-1])  # which has words for them
    written = [parameter(given) for name, given in signature.parameters.items() if name not in INNER]
    kinds = [given.kind for name, given in signature.parameters.items() if name not in INNER]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        written.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    if inspect.Parameter.POSITIONAL_ONLY in kinds:
        written.insert(kinds.count(inspect.Parameter.POSITIONAL_ONLY), "/")
    returned = annotation(signature.return_annotation)
    gives = f" -> {returned}" if returned not in ("", "None") else ""
    inside = ", ".join(written)
    if len(inside) > WIDTH:
        inside = "\n    " + ",\n    ".join(written) + ",\n"
    return f"({inside}){gives}"


def parameter(given: inspect.Parameter) -> str:
    """A parameter as it is declared."""
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(given.kind, "")
    is_a = annotation(given.annotation)
    typed = f"{stars}{given.name}" + (f": {is_a}" if is_a else "")
    if given.default is given.empty:
        return typed
    default = "{}" if isinstance(given.default, MappingProxyType) else repr(given.default)
    return f"{typed} = {default}" if is_a else f"{typed}={default}"


def annotation(given: Any) -> str:
    """A type as it is written."""
    if given is inspect.Signature.empty:
        return ""
    given = getattr(given, "__origin__", given) if hasattr(given, "__metadata__") else given
    text = given if isinstance(given, str) else getattr(given, "__forward_arg__", "")
    return str(text or inspect.formatannotation(given)).replace("narval.core.elements.element.", "")


def docstring(value: Any) -> str:
    """The docstring, its paragraphs each on one line; what is indented stays as it is."""
    parts = without_citations(inspect.getdoc(value) or "").split("\n\n")
    return "\n\n".join(part if part.startswith(" ") else " ".join(part.split()) for part in parts)
