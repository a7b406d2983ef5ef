"""Labels: the ways in by which the contents of elements came, and what decided in runs
(docs/explanation/trust.md).

A set of labels is a small number, and elements have theirs in pages of numbers: a page exists only if one of
its elements has a label, and costs four bytes for each. Records hold names: a number is valid only during the
life of one memory object.

A set may say more about a part of the element: `/@to=` says that the part `@to` has only labels of its own,
and `/@to=mail` that `mail` is one of them. So sets are joined part by part, and names are only ever added.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from narval.core.elements.changes import Added, Change, Held
from narval.core.elements.element import Origin
from narval.core.trust.paths import is_within

MAIL, FEED, WEB, CALENDAR, FILE, PROGRAM = "mail", "feed", "web", "calendar", "file", "program"
CHAT = "chat"
"""The labels for ways in."""

NONE = 0
"""The number of the empty set."""

MODEL = "model:"
"""The prefix of the labels of language models: an element with one is hearsay."""

WHETHER = "?"
"""The suffix of a label of what decided that an element was made, not of its contents."""

HOOK = "hook:"
"""The prefix of the labels of webhooks."""

SERVER = "mcp:"
"""The prefix of the labels of MCP servers and clients."""

HTTP = "http:"
"""The prefix of the labels of programs that call by HTTP."""

STORE = "agent:"
"""The prefix of the labels of other stores."""

ANY_MODEL = f"{MODEL}*"
"""The label for an unknown language model's answer."""

SECRET = "secret:"  # noqa: S105
"""The prefix of the labels set by the owner of the home; all others name a source."""

UNKNOWN = "unknown"
"""The label of elements older than labels: every rule about a source applies to them."""

FIXED = (MAIL, FEED, WEB, CALENDAR, FILE, PROGRAM, CHAT, UNKNOWN)
"""The labels that are the same in every home."""

PART = "/"
"""The prefix of names that are not labels, but say which labels a part has: `/@to=mail`."""

ENDORSED = "endorsed/"
"""The prefix of the origin's step for an element that the owner vouches for; the reason follows."""


def endorsement(origin: Origin | None) -> str:
    """The reason why the owner of the home vouches for an element; "" if it is not endorsed."""
    if origin is None or origin.run or not origin.step.startswith(ENDORSED):
        return ""
    return origin.step.removeprefix(ENDORSED)


def recorded(labels: tuple[str, ...], hearsay: bool) -> tuple[str, ...]:
    """The labels of a record; one older than labels has only a hearsay flag."""
    return labels or ((ANY_MODEL,) if hearsay else ())


_BITS = 8
_SIZE = 1 << _BITS
_LAST = _SIZE - 1

Parts = Mapping[str, frozenset[str]]
"""The labels of parts with their own, by path."""


class LabelSets:
    """The existing sets of labels, each with a number."""

    def __init__(self) -> None:
        self._others: dict[tuple[int, bool], int] = {}
        self._names: list[tuple[str, ...]] = [()]
        self._parts: dict[int, Parts] = {}
        """The sets that say more about parts."""
        self._unions = [NONE]
        """For each set, the one that also has the labels of its parts, and no information about parts."""
        self._hearsay = [False]
        self._numbers: dict[tuple[str, ...], int] = {(): NONE}
        self._joined: dict[tuple[int, int], int] = {}
        self._of_parts: dict[tuple[int, str], frozenset[str]] = {}
        self.has_hearsay = False
        """True once a set contains the label of a language model."""

    def number(self, names: Iterable[str]) -> int:
        """The number of a set of labels; a new number if the set is new."""
        if type(names) is tuple and (earlier := self._numbers.get(names)) is not None:
            return earlier
        distinct = {*names}
        ordered = tuple(
            sorted(name for name in distinct if name[:-1] not in distinct or name[-1:] != WHETHER)
        )
        number = self._numbers.get(ordered)
        if number is None:
            parts = _parts_in(ordered)
            if parts and (whole := tuple(sorted({*ordered}.union(map(_name, parts))))) != ordered:
                return self.number(whole)
            union = len(self._names)
            if parts:
                rest = (name for name in ordered if not name.startswith(PART))
                union = self.number(frozenset(rest).union(*parts.values()))
            number = self._numbers[ordered] = len(self._names)
            self._names.append(ordered)
            self._unions.append(union)
            self._hearsay.append(any(name.startswith(MODEL) for name in self._names[union]))
            self.has_hearsay = self.has_hearsay or self._hearsay[number]
            if parts:
                self._parts[number] = parts
        return number

    def number_of(self, rest: Iterable[str], parts: Mapping[str, Iterable[str]]) -> int:
        """The number of the set in which some parts have their own labels, and the rest has others."""
        of_parts = (
            name
            for path, labels in parts.items()
            for name in (_name(path), *map(_name(path).__add__, labels))
        )
        return self.number((*rest, *of_parts))

    def names(self, number: int) -> tuple[str, ...]:
        """The labels of a set in alphabetical order, with its names for parts."""
        return self._names[number]

    def union(self, number: int) -> int:
        """The set of all labels of a set and its parts, without information about parts."""
        return self._unions[number]

    def paths(self, number: int) -> Iterable[str]:
        """The parts with labels of their own."""
        return self._parts.get(number, ())

    def rest(self, number: int) -> frozenset[str]:
        """The labels of everything but the parts with their own."""
        return frozenset(name for name in self._names[number] if not name.startswith(PART))

    def of_part(self, number: int, path: str) -> frozenset[str]:
        """The labels of a part and everything in it; "" is the whole."""
        labels = self._of_parts.get((number, path))
        if labels is None:
            labels = self._of_parts[number, path] = self._of_part(number, path)
        return labels

    def _of_part(self, number: int, path: str) -> frozenset[str]:
        parts = self._parts.get(number)
        if not parts:
            return frozenset(self._names[number])
        around = [outer for outer in parts if is_within(path, outer)]
        own = parts[max(around, key=len)] if around else self.rest(number)
        return own.union(*(labels for inner, labels in parts.items() if is_within(inner, path)))

    def join(self, one: int, other: int) -> int:
        """The set of all labels of two sets."""
        if one == other or not other:
            return one
        if not one:
            return other
        pair = (one, other) if one < other else (other, one)
        number = self._joined.get(pair)
        if number is None:
            paths = {*self.paths(one), *self.paths(other)}
            parts = {path: self._exactly(one, path) | self._exactly(other, path) for path in paths}
            number = self._joined[pair] = self.number_of(self.rest(one) | self.rest(other), parts)
        return number

    def _exactly(self, number: int, path: str) -> frozenset[str]:
        """The labels of a part, without those of inner parts that have their own."""
        parts = self._parts.get(number, {})
        around = [outer for outer in parts if is_within(path, outer)]
        labels = parts[max(around, key=len)] if around else self.rest(number)
        return frozenset(name for name in labels if name[-1] != WHETHER)

    def whether(self, number: int) -> int:
        """The same labels, marked as `decided by` instead of `content`."""
        other = self._others.get((number, True))
        return self._other(number, True) if other is None else other

    def whole(self, number: int) -> int:
        """The same labels, without the mark that distinguishes `decided by` from `content`."""
        other = self._others.get((number, False))
        return self._other(number, False) if other is None else other

    def told(self, number: int) -> tuple[list[str], list[str]]:
        """The labels of the contents, and those of what decided that the element was made."""
        names = self._names[self._unions[number]]
        deciding = [name[:-1] for name in names if name[-1] == WHETHER]
        return [name for name in names if name[-1] != WHETHER], deciding

    def _other(self, number: int, whether: bool) -> int:
        end = WHETHER if whether else ""
        names = (f"{name.removesuffix(WHETHER)}{end}" for name in self._names[self._unions[number]])
        other = self._others[number, whether] = self.number(names)
        return other

    def weight(self, number: int) -> tuple[bool, int]:
        """The sort key of sets by how much they count against an element."""
        return self._hearsay[number], len(self._names[self._unions[number]])

    def is_hearsay(self, number: int) -> bool:
        """True if a language model's answer has entered, directly or not."""
        return self._hearsay[number]


def _name(path: str) -> str:
    """The name that says that a part has labels of its own; each of the labels follows it."""
    return f"{PART}{path}="


def _parts_in(names: Iterable[str]) -> dict[str, frozenset[str]]:
    """The labels of parts, by path, from the names of a set."""
    parts: dict[str, frozenset[str]] = {}
    for name in names:
        if name.startswith(PART):
            path, _, label = name[len(PART) :].partition("=")
            parts[path] = parts.get(path, frozenset()) | ({label} if label else frozenset())
    return parts


class MadeOf(NamedTuple):
    """The sources of the parts of a new element: for each part's path, the parts of others that it is about,
    as eids and paths. Its `own` parts have no label of a source. With `nothing_else` all other parts say
    nothing; else they may be about anything that the element was made of.
    """

    parts: Mapping[str, Iterable[tuple[int, str]]]
    own: tuple[str, ...] = ()
    nothing_else: bool = False


class Labels(LabelSets):
    """The labels of the elements and runs of a memory; `pages` is empty if nothing has a label.

    `coming` is the set of labels of what is being added now.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pages: dict[int, array[int]] = {}
        self.coming = NONE
        self._made: dict[tuple[int, int, bool], int] = {}
        """The sets of new elements, by the sets of their run and inputs; True if the run knows only its
        inputs.
        """
        self.files: dict[str, int] = {}
        """The label sets of the contents that narval wrote into files, by path."""

    def of(self, eids: Iterable[int]) -> int:
        """The set of all labels that any of these elements or runs has, in any part."""
        pages, unions, joined = self.pages, self._unions, NONE
        if pages:
            for eid in eids:
                page = pages.get(eid >> _BITS)
                if page is not None and (number := unions[page[eid & _LAST]]) != joined and number:
                    joined = self.join(joined, number) if joined else number
        return joined

    def come_with(self, number: int) -> int:
        """Set the labels of everything added from now on."""
        self.coming = number
        return number

    def of_files(self, paths: Iterable[str]) -> int:
        """The set of all labels of some files that narval wrote."""
        joined = NONE
        for path in paths:
            joined = self.join(joined, self.files.get(path, NONE))
        return joined

    def own(self, eid: int) -> int:
        """The set of the labels of an element or a run, with its information about parts."""
        page = self.pages.get(eid >> _BITS)
        return NONE if page is None else page[eid & _LAST]

    def has(self, eid: int, number: int) -> bool:
        """True if an element or a run has all the labels of a set."""
        own = self.own(eid)
        return own == number or self.join(own, number) == own

    def add(self, eid: int, names: Iterable[str]) -> tuple[str, ...]:
        """Add labels to an element or a run; return the new ones.

        A label without a part applies to all parts.
        """
        page = self.pages.get(eid >> _BITS)
        old, number = NONE if page is None else page[eid & _LAST], self.number(names)
        if old:
            number = self.join(old, number)
        if number == old:
            return ()
        if page is None:
            self._put(eid, number)
        else:
            page[eid & _LAST] = number
        had, names = self._names[old], self._names[number]
        return tuple([name for name in names if name not in had]) if had else names

    def restore(self, eid: int, name: str) -> None:
        """Restore a recorded name to the set of an element or a run."""
        self._put(eid, self.number((*self.names(self.own(eid)), name)))

    def _put(self, eid: int, number: int) -> None:
        page = self.pages.get(eid >> _BITS)
        if page is None:
            page = self.pages[eid >> _BITS] = array("I", bytes(_SIZE * array("I").itemsize))
        page[eid & _LAST] = number

    def remove(self, eid: int, names: Iterable[str]) -> None:
        """Remove labels from an element or a run."""
        left = self.number({*self.names(self.own(eid))}.difference(names))
        page = self.pages.get(eid >> _BITS)
        if page is not None:
            page[eid & _LAST] = left
            if not any(page):
                del self.pages[eid >> _BITS]

    def forget(self, eids: Iterable[int]) -> None:
        """Remove the labels of elements and runs that are gone."""
        if self.pages:
            for eid in eids:
                if number := self.own(eid):
                    self.remove(eid, self.names(number))

    def all(self) -> Iterator[tuple[int, str]]:
        """Each label of each element and run, by eid."""
        for place, page in sorted(self.pages.items()):
            for offset, number in enumerate(page):
                yield from (((place << _BITS) + offset, name) for name in self._names[number])

    def spread(
        self,
        change: Change,
        came_with: int = NONE,
        *,
        knows_inputs: bool = False,
        made_of: MadeOf | None = None,
    ) -> Iterable[tuple[int, int]]:
        """The elements and runs that a change gives labels, each with the number of a set.

        An element gets the labels of what it was made of, of the run that made it or that it is about, and
        those that it `came_with`, unless the owner endorsed it; a run gets those of what it holds. With
        `knows_inputs` the run only decided that the element was made, and added nothing to its contents.
        Parts for which `made_of` knows more get the labels of their sources.
        """
        if type(change) is Held:
            return ((change.run, self.of(change.eids)),)
        if type(change) is not Added:
            return ()
        origin, number = change.element.origin, came_with
        if origin is not None:
            of_run = self.of((origin.run,))
            made = of_run, self.of(origin.inputs), knows_inputs
            if (number := self._made.get(made, -1)) < 0:
                deciding = self.whether(of_run) if knows_inputs else of_run
                number = self._made[made] = self.join(deciding, made[1])
            if came_with:
                number = self.join(came_with, number)
            if number and not origin.run and endorsement(origin):
                number = NONE
            if number and made_of is not None:
                number = self._by_parts(number, made_of, self.join(came_with, of_run), origin.inputs)
        return ((change.element.eid, number), (change.held, number)) if number else ()

    def _by_parts(self, number: int, made_of: MadeOf, deciding: int, inputs: Iterable[int]) -> int:
        """Refine the set of an element by what is known about its parts. Labels of what decided that it, or
        something it is made of, was made are kept.
        """
        said, _ = self.told(number)
        parts = {
            path: frozenset[str]().union(*(self.told_of(eid, within) for eid, within in sources))
            for path, sources in made_of.parts.items()
        }
        if made_of.nothing_else:
            some = {path: labels for path, labels in parts.items() if labels}
            led_to = (name for eid in inputs for name in self.names(self.own(eid)) if name[-1] == WHETHER)
            return self.number_of((*self.names(self.whether(deciding)), *led_to), some)
        secret = frozenset(name for name in said if name.startswith(SECRET))
        own = dict.fromkeys(made_of.own, secret)
        return self.number_of(self.names(number), {**own, **parts})

    def told_of(self, eid: int, path: str) -> frozenset[str]:
        """The labels of the contents of an element's part."""
        return frozenset(name for name in self.of_part(self.own(eid), path) if name[-1] != WHETHER)
