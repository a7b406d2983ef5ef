"""What the parts of a definition are, so that what is wrong can be told of one: a row for each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from narval.definitions.recipe.definition import Recipe, Step, Transition

Key = tuple[str, str]
"""The list of parts in which an engine shows a part, and the id that it has there."""


class Part(msgspec.Struct, frozen=True):
    """One part of a definition.

    `cannot` says what it never does when it is never in one of the states `did`; in one of the states `lost`
    it never will any more, in `ended` it failed to, in `waits` it would. It can do nothing before the parts
    `after`, all of them or one of them, have.
    """

    key: Key
    line: int
    name: str
    cannot: str
    did: frozenset[str]
    lost: frozenset[str] = frozenset({"impossible", "fail"})
    ended: frozenset[str] = frozenset({"failed"})
    waits: frozenset[str] = frozenset({"ready", "wait-condition", "wait-time"})
    after: tuple[Key, ...] = ()
    needs_all: bool = False


class Structure(msgspec.Struct, frozen=True):
    """The parts of a definition; `end` ends its runs well, those of the list `calling` make calls.

    An error of a part is handled when the part goes from the state `in_error` to `handled`. `outlived`: there
    are dates which come no more from some year on.
    """

    parts: Mapping[Key, Part]
    end: Key
    calling: str
    run: str
    in_error: str
    handled: str
    restarts: bool = False
    outlived: bool = False


RAN = frozenset({"running", "end", "done", "error", "history"})


STEPS, TRANSITIONS = "steps", "transitions"


def _recipe(recipe: Recipe) -> Structure:
    parts = [_step(each) for each in recipe.steps.values()]
    parts += [_transition(each) for each in recipe.transitions.values()]
    return Structure(
        parts={each.key: each for each in parts},
        end=(STEPS, recipe.end.id),
        calling=STEPS,
        run="plan",
        in_error="error",
        handled="history",
        restarts=recipe.restart,
        outlived=any(time.years for each in recipe.transitions.values() for time in each.times),
    )


def _step(step: Step) -> Part:
    name = f"step {step.id!r}"
    after = tuple((TRANSITIONS, each.id) for each in step.ins)
    return Part((STEPS, step.id), step.line, name, f"{name} can never run", RAN, after=after)


def _transition(transition: Transition) -> Part:
    joins = len(transition.ins) > 1
    name = f"{'join' if joins else 'transition'} {transition.id!r}"
    cannot = f"{name} can never {'complete' if joins else 'fire'}"
    after = tuple((STEPS, link.step.id) for link in transition.ins)
    key = TRANSITIONS, transition.id
    return Part(key, transition.line, name, cannot, frozenset({"fired"}), after=after, needs_all=True)


ANATOMIES: Mapping[str, Callable[[Any], Structure]] = {"recipe": _recipe}
"""The anatomy of a definition, by its kind. A kind without a row is not explored."""
