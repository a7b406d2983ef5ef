"""Action: a prototype and a Python function's name (§2.1.3, tables 2.15-2.17, N30, N33, N36)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar, overload

from narval.definitions.library import ModuleDefinition
from narval.definitions.prototype import EMPTY, Prototype
from narval.definitions.prototype import Input as Input
from narval.definitions.prototype import Output as Output
from narval.definitions.reading.values import TextTemplate

Where = Literal["thread", "worker", "inline", "async", "source"]
"""The places where a function runs (N33): `async` in the loop, as a task; `source` too, and it stays (N36).
"""

DECLARATION = "__narval_action__"
"""The attribute of a function that holds its `ActionDeclaration`."""

Function = TypeVar("Function", bound=Callable[..., Any])


class Action(ModuleDefinition, frozen=True, eq=False, kw_only=True):
    """A Python function that can be called; `where` is the place where it runs.

    `describe` says in a sentence what a call does, by its inputs, to people who are to agree to it (P72).
    `xml` is the `action` element that memory shows (N2).
    """

    kind: ClassVar[str] = "action"

    prototype: Prototype = EMPTY
    where: Where = "thread"
    describe: TextTemplate | None = None


@dataclass(frozen=True)
class ActionDeclaration:
    """A declaration by `@action`, as its author wrote it."""

    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    name: str | None = None
    runs: Literal["thread", "worker", "inline"] | None = None
    source: bool = False
    description: str | None = None
    pure: bool = False
    describe: str | None = None


@overload
def action(function: Function, /) -> Function: ...


@overload
def action(
    *,
    inputs: Iterable[Input] = (),
    outputs: Iterable[Output] = (),
    name: str | None = None,
    runs: Literal["thread", "worker", "inline"] | None = None,
    source: bool = False,
    description: str | None = None,
    pure: bool = False,
    describe: str | None = None,
) -> Callable[[Function], Function]: ...


def action(
    function: Callable[..., Any] | None = None,
    /,
    *,
    inputs: Iterable[Input] = (),
    outputs: Iterable[Output] = (),
    name: str | None = None,
    runs: Literal["thread", "worker", "inline"] | None = None,
    source: bool = False,
    description: str | None = None,
    pure: bool = False,
    describe: str | None = None,
) -> Any:
    """Declare that a function is an action; the function itself is returned unchanged.

    The parameters are the ids of `inputs` ("-" becomes "_"); `name` overrides the function's name; `runs`
    says where it runs ("thread" by default, "worker", "inline"; `async def` runs in the loop); `source` that
    it is an async generator whose step stays running (N36); `pure` that it touches nothing outside, so that a
    simulation may run it; `describe` what a call does, as in "Send {$email/@subject} to {$email/to}", to
    people who are to agree to it (P72).
    """
    declaration = ActionDeclaration(
        tuple(inputs), tuple(outputs), name, runs, source, description, pure, describe
    )

    def declare(declared: Function) -> Function:
        setattr(declared, DECLARATION, declaration)
        return declared

    return declare if function is None else declare(function)
