"""Code of modules that dataflows use: operators, wrappers and functions (T57, TA19).

All dataflows share their names, so no two modules may define the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from narval.core.definitions.library import ModuleDefinition
from narval.kinds.dataflow.language.operators import Operator

DataflowCodeKind = Literal["operator", "wrapper", "function"]

DATAFLOW_CODE = "__narval_dataflow__"
"""The attribute of a function or class that holds its `DataflowDeclaration`."""


class DataflowCode(ModuleDefinition, frozen=True, eq=False, kw_only=True):
    """A function or class that dataflows use by name.

    `operator` has the ports and properties of an operator; `attributes` are those of the tuples that a
    wrapper yields, with their types.
    """

    kind: DataflowCodeKind
    where: Literal["thread", "worker", "inline", "async"] = "thread"
    operator: Operator | None = None
    attributes: Mapping[str, str] = {}

    @property
    def full_name(self) -> str:
        """Its own name, the only one that dataflows know."""
        return self.name

    @property
    def key(self) -> str:
        """Its name among the functions and classes of modules."""
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True)
class DataflowDeclaration:
    """A declaration by a decorator, as the author of the function or class wrote it."""

    kind: DataflowCodeKind
    name: str | None = None
    inputs: str = ""
    outputs: str = ""
    attributes: Mapping[str, str] | None = None
    runs: Literal["thread", "worker", "inline"] | None = None
    blocking: bool = False
    conditional: bool = False
    io_bound: bool = False
    reentrant: bool = False
    granularity: int = 0
    pure: bool = False


DeclaredCode = TypeVar("DeclaredCode", bound=Callable[..., Any])


def _declared_as(declaration: DataflowDeclaration) -> Callable[[DeclaredCode], DeclaredCode]:
    def declare(declared: DeclaredCode) -> DeclaredCode:
        setattr(declared, DATAFLOW_CODE, declaration)
        return declared

    return declare


def operator(
    name: str | None = None,
    /,
    *,
    inputs: str = "",
    outputs: str = "",
    runs: Literal["thread", "worker", "inline"] | None = None,
    blocking: bool = False,
    conditional: bool = False,
    io_bound: bool = False,
    reentrant: bool = False,
    granularity: int = 0,
    pure: bool = False,
) -> Any:
    """Declare an operator of dataflows: a class, or a function that is called once for each tuple.

    The ports are written as in a declaration, `inputs="String city, TupleStream in"`; a class has the methods
    `on_init`, `on_PORT` and `on_PORT_eos` for the ports that stream. The properties are those of `OPERATOR
    name {…}` in a `.plan` file.
    """
    return _declared_as(
        DataflowDeclaration(
            "operator",
            name,
            inputs,
            outputs,
            None,
            runs,
            blocking,
            conditional,
            io_bound,
            reentrant,
            granularity,
            pure,
        )
    )


def wrapper(
    name: str | None = None,
    /,
    *,
    attributes: Mapping[str, str],
    runs: Literal["thread", "worker", "inline"] | None = None,
) -> Any:
    """Declare a wrapper: a function that takes a query and yields a dict for each tuple.

    `attributes` are the names of the values in these dicts, with their types, String or Number.
    """
    return _declared_as(DataflowDeclaration("wrapper", name, attributes=attributes, runs=runs))


def function(
    name: Any = None, /, *, runs: Literal["thread", "worker", "inline"] | None = None, pure: bool = False
) -> Any:
    """Declare a function that apply, filter, fold, map, makestream and partition call by name."""
    declaration = DataflowDeclaration("function", None if callable(name) else name, runs=runs, pure=pure)
    declare: Callable[[Any], Any] = _declared_as(declaration)
    return declare(name) if callable(name) else declare
