"""Grants: which definitions may act as they need to, who granted it, and what has to be asked.

A definition may start at once if its needs do not reach outside the home. Otherwise a person must grant them,
unless it ships with narval. Needs that grow are asked for again; needs that shrink are not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

import msgspec

from narval.core.definitions.action.definition import Action
from narval.core.definitions.library import Definition, Library, ModuleDefinition, named_by
from narval.core.definitions.telling.sentence import tell
from narval.core.trust.covering import is_covered
from narval.core.trust.needs import MADE, OUTSIDE, Need

Standing = Literal["granted", "inside", "ships", "trusted", "asked", "rejected"]
"""The reason why a definition may start: it is granted; it reaches nothing outside; it ships; the home asks
nothing. If it is `asked` for, or `rejected`, it may not start.
"""


class Grant(msgspec.Struct, frozen=True):
    """A grant by a person: for a definition, or with `everything` for a whole folder."""

    by: str
    """The person or login that granted it."""
    at: str
    """The moment, as ISO 8601 in UTC."""
    needs: tuple[str, ...] = ()
    """The granted needs, as texts."""
    digest: str = ""
    """The digest of what was reviewed: the definition and everything it calls."""
    sentences: tuple[str, ...] = ()
    """The sentences that described it at that time."""
    everything: bool = False
    """True for a folder whose definitions may all act as they need to."""
    rejected: bool = False
    """True if these needs were rejected: they are not asked for again."""


class Decision(NamedTuple):
    """The decision whether a definition may start: by which grant, or what must be granted first."""

    standing: Standing
    grant: Grant | None = None
    lacking: tuple[str, ...] = ()
    is_foreign: bool = False


def key_of(definition: Definition, folder: str) -> str:
    """The name of the table for a definition of the home (`folder` is "") or of a folder in it."""
    return f"{folder}{' ' if folder else ''}{definition.kind} {definition.full_name}"


def decide(
    definition: Definition,
    needs: Iterable[Need],
    grants: Mapping[str, Grant],
    *,
    folder: str = "",
    is_foreign: bool = False,
    ships: Iterable[str] | None = None,
) -> Decision:
    """Decide whether a definition may start in a home that asks for grants.

    `folder` is its folder in the home; `is_foreign` says that someone other than the owner put it there.
    `ships` are the needs of the shipped definition with its name; None if there is none.
    """
    outside = tuple(need.text for need in needs if need.is_outside)
    of_folder = next((grant for name, grant in grants.items() if _holds(name, definition.path, grant)), None)
    if of_folder is not None:
        return Decision("granted", of_folder, (), is_foreign)
    grant = grants.get(key_of(definition, folder))
    if grant is not None and grant.rejected:
        if outside or is_foreign:
            is_new = not all(is_covered(need, grant.needs) for need in outside)
            return Decision("asked" if is_new else "rejected", None if is_new else grant, outside, is_foreign)
    elif grant is not None:
        lacking = tuple(need for need in outside if not is_covered(need, grant.needs))
        return Decision("asked" if lacking else "granted", grant, lacking, is_foreign)
    if ships is not None and not is_foreign and all(is_covered(need, ships) for need in outside):
        return Decision("ships" if outside else "inside")
    if outside or is_foreign:
        return Decision("asked", None, outside, is_foreign)
    return Decision("inside")


def held_against(needs: Iterable[Need], decision: Decision) -> tuple[str, ...] | None:
    """The needs to which a definition's calls and their results are limited; None if they are not limited.

    For a definition that may not start, this concerns runs that started before, and what undoes them.
    """
    grant = decision.grant
    if decision.standing in ("ships", "trusted") or (grant is not None and grant.everything):
        return None
    within = tuple(need.text for need in needs if need.what in (*OUTSIDE, *MADE) and not need.is_outside)
    return (*(grant.needs if grant is not None else ()), *within)


def granted_to(
    definition: Definition, grants: Mapping[str, Grant], *, folder: str = "", ships: bool = False
) -> tuple[str, ...] | None:
    """The needs granted to any version of a definition of that name; None if they are not limited, as for a
    definition that `ships` and has no grant.
    """
    if any(_holds(name, definition.path, grant) for name, grant in grants.items()):
        return None
    grant = grants.get(key_of(definition, folder))
    if grant is None:
        return None if ships else ()
    return () if grant.rejected else grant.needs


def _holds(name: str, path: str, grant: Grant) -> bool:
    return grant.everything and path.startswith(name)


def why_withheld(definition: Definition, decision: Decision) -> str:
    """The sentence that says why a definition may not start."""
    name, grant = definition.full_name, decision.grant
    if decision.standing == "rejected" and grant is not None:
        needs = f", which needs {', '.join(decision.lacking)}" if decision.lacking else ""
        return f"{grant.by} has rejected {name}{needs}"
    if decision.lacking:
        return f"{name} needs what is not granted: {', '.join(decision.lacking)}"
    return f"{name} came from elsewhere, and is not granted to act here"


def digest_of(definition: Definition, library: Library) -> str:
    """The digest of what is reviewed before a grant: a definition, and everything it calls."""
    digests = sorted(f"{one.kind} {one.full_name} {one.digest}" for one in reached(definition, library))
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def reached(definition: Definition, library: Library) -> Iterator[Definition]:
    """A definition and everything it can call, directly or not, including what undoes an action."""
    queue, seen = [definition], {id(definition)}
    for one in queue:
        yield one
        called: list[Definition | None] = []
        if isinstance(one, Action):
            called.append(library.get(Action.kind, one.undo))
        elif not isinstance(one, ModuleDefinition):
            for reference in one.references:
                target, several = named_by(reference, library)
                called += (*several, target)
        for other in called:
            if other is not None and id(other) not in seen:
                seen.add(id(other))
                queue.append(other)


def told_of(definition: Definition, library: Library) -> tuple[str, ...]:
    """The sentences that describe a definition, with details indented."""
    return tuple(f"{'  ' * sentence.depth}{sentence.text}" for sentence in tell(definition, library))
