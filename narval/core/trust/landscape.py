"""The landscape of a home: all elements that can exist in it, and where each can be found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from narval.core.definitions.action.definition import Action
from narval.core.definitions.library import Definition, Library
from narval.core.definitions.prototype import Output
from narval.core.elements.element import SIGNAL
from narval.core.elements.names import STARTING
from narval.core.elements.own_elements import FAILURE
from narval.core.kinds import KINDS
from narval.core.memory.labels import SECRET
from narval.core.patterns.pattern import Condition, Pattern, condition
from narval.core.trust.flow import (
    CallFlow,
    Flow,
    GivenBy,
    InMemory,
    Literal,
    Origin,
    Taken,
    TheArgument,
    ThisRun,
    flow_of,
)
from narval.core.trust.outputs import Key, Outputs, Returns
from narval.core.trust.paths import Keep
from narval.core.trust.places import LabelGraph, Place, Places, PossibleMemory, Source, may_be

ERROR = "error"
"""The name of error elements."""


class WayIn(NamedTuple):
    """A way in for elements without a definition: a webhook, or what memory has already."""

    title: str
    """The title for people."""
    labels: tuple[str, ...]
    """The labels of what comes in."""
    fits: Condition | None = None
    """The condition that the elements match; None: any element may come."""


class KnownHome(msgspec.Struct, frozen=True):
    """A home as known before it runs."""

    libraries: tuple[Library, ...]
    """The definitions of each of its agents, which may send elements to one another."""
    ways_in: tuple[WayIn, ...] = ()
    """The other ways in for elements."""
    models: frozenset[str] = frozenset()
    """The language models in the settings."""
    trusted: frozenset[str] = frozenset()
    """The models whose answers get no label."""
    secrets: tuple[tuple[str, Pattern], ...] = ()
    """The names of secrets, each with the pattern of its elements."""
    has_peers: bool = False
    """True if its agents may send to agents of other homes."""
    offers: Mapping[str, Sequence[str]] = {}
    """The agents that may call definitions here, by the definitions' full names."""
    approvals: tuple[tuple[str, str], ...] = ()
    """The actions whose calls must be approved in the home, each with the work that asks."""
    writes: frozenset[str] = frozenset()
    """The channels by which the home can write to people."""
    always: frozenset[str] = frozenset()
    """The channels by which people are written to about all work."""

    def pattern_of(self, label: str) -> str:
        """The pattern of the elements with a secret's label; "" for other labels."""
        return next((pattern.text for name, pattern in self.secrets if label == f"{SECRET}{name}"), "")


def key_of(definition: Definition) -> Key:
    """The kind, full name and version of a definition."""
    return definition.kind, definition.full_name, definition.digest


class Followed(NamedTuple):
    """A definition with its library, its declared flow, and the nodes of its runs."""

    key: Key
    definition: Definition
    library: Library
    flow: Flow
    run: Place
    """The runs, including what their callers and starters decided."""
    own: int
    """The node of what they return to their callers."""


class Moved(NamedTuple):
    """Elements that go to another agent: the call that sends them, and their place there."""

    sender: Followed
    call: CallFlow
    taken: Taken
    place: Place


class Landscape:
    """The places of all elements and runs of a home, and how origins map to them."""

    def __init__(self, home: KnownHome) -> None:
        self._home, self.graph = home, LabelGraph()
        self.memory = PossibleMemory(self.graph, [(f"{SECRET}{name}", of) for name, of in home.secrets])
        """The elements that memory can contain."""
        self.owner: dict[int, tuple[Place, str]] = {}
        """The place and the path of each node that belongs to a single place."""
        self.followed: dict[Key, Followed] = {}
        """The definitions that are run."""
        self.arguments: dict[tuple[Key, str, int], Place] = {}
        """The elements written in parts of definitions."""
        self.moved: list[Moved] = []
        """The elements that go to other agents."""
        self._places: list[Place] = []
        """All places, by their numbers."""
        self.outputs = Outputs()
        """The outputs of parts."""
        self._runs = 0
        """All runs, as a set of places."""
        self._sources: dict[int, Places] = {}
        files = self.place("a file that was written")
        self.files = files.nodes[""]
        """The node of all files that actions write and others read."""
        self.closed = self.graph.node()
        """The node of the files in which the home keeps elements, which may contain secrets."""
        for name, _ in home.secrets:
            self.graph.seed(self.closed, f"{SECRET}{name}")
        self._make_places()

    # --- places ---------------------------------------------------------------------------------------

    def _make_places(self) -> None:
        for way in self._home.ways_in:
            place = self.place(way.title)
            self.memory.enter(place, way.fits)
            for label in way.labels:
                self.graph.seed(place.nodes[""], label)
        for library in self._home.libraries:
            for definition in library:
                if is_run(definition.kind) and key_of(definition) not in self.followed:
                    self._make_run(definition, library)
        for followed in self.followed.values():
            for call in followed.flow.calls:
                self._make_places_of_call(followed, call)
        _Answers(self).pass_on()
        for followed in self.followed.values():
            for call in followed.flow.calls:
                if call.sends or call.agent:
                    self._make_places_of_messages(followed, call)

    def _make_run(self, definition: Definition, library: Library) -> None:
        run = self.place(f"a run of {definition.full_name}", definition)
        run = run._replace(whether=run.nodes[""])
        self._places[-1], self._runs = run, self._runs | run.bit
        flow = flow_of(definition, library)
        flow = msgspec.structs.replace(flow, calls=(*flow.calls, *_undoing(flow.calls, library)))
        followed = Followed(key_of(definition), definition, library, flow, run, self.graph.node())
        self.followed[followed.key] = followed
        for name in (*KINDS[definition.kind].runs, ERROR, FAILURE, SIGNAL):
            self.memory.enter(run, condition(name))
        for fits in flow.makes:
            self.memory.enter(run, fits)

    def _make_places_of_call(self, followed: Followed, call: CallFlow) -> None:
        if call.undoes:
            of_part = [key for key in self.arguments if key[:2] == (followed.key, call.undoes)]
            self.arguments.update(
                ((followed.key, call.part, at), self.arguments[of, part, at]) for of, part, at in of_part
            )
        for at, written in enumerate(call.arguments):
            title = f"the {written.name} written at {call.part}"
            place = self.place(title, followed.definition, call.part, written.parts)
            self.arguments[followed.key, call.part, at] = place
            self.memory.enter(place, written.literal)
            self._enter_within(place, written.within)
        if is_run(call.kind):
            if not call.agent:
                self.outputs.call(followed.key, call.part, self.called(followed, call))
            return
        for output in call.prototype.outputs:
            names = output.condition.names
            title = f"the {' or '.join(sorted(names)) if names else output.id} that {call.target} gives"
            of_parts = [*output.own, *(keep.part.path for keep in keeps_of(call, output))]
            place = self.place(title, followed.definition, call.part, of_parts)
            self.outputs.give(followed.key, call.part, place.bit)
            self.memory.enter(place, output.condition)
            if names is not None and not names.isdisjoint(STARTING):
                self._enter_within(place, (None,))

    def _make_places_of_messages(self, followed: Followed, call: CallFlow) -> None:
        """Enter what goes to another agent into its memory."""
        for taken in (*call.takes, *call.elements):
            place = self.place(f"what {call.part} sends", followed.definition, call.part)
            self.moved.append(Moved(followed, call, taken, place))
            if isinstance(taken.origin, InMemory):
                self.memory.enter(place, taken.origin.condition)
            else:
                for source in self.places(followed.key, taken.origin, call.part):
                    self.memory.enter_as(place, source)
            if self.memory.may_be_named(place, STARTING):
                of = taken.origin
                self._enter_within(
                    place, call.arguments[of.at].within if isinstance(of, TheArgument) else (None,)
                )

    def place(
        self, title: str, definition: Definition | None = None, part: str = "", of_parts: Iterable[str] = ()
    ) -> Place:
        """Make a place, with a node for each part of its elements that is looked at."""
        nodes = {path: self.graph.node() for path in dict.fromkeys(("", *of_parts))}
        place = Place(title, definition, part, nodes, self.graph.node(), len(self._places))
        self._places.append(place)
        self.owner.update((node, (place, path)) for path, node in nodes.items())
        return place

    def _enter_within(self, outer: Place, elements: Iterable[Literal | None]) -> None:
        """Enter what is within elements that start a run into memory, where each is an element of its own."""
        for of in elements:
            title = f"{f'the {of.name}' if of is not None else 'what is'} within {outer.title}"
            place = self.place(title, outer.definition, outer.part)
            self.graph.connect(outer.nodes.values(), [place.nodes[""]])
            self.graph.connect([outer.whether], [place.whether])
            self.memory.enter(place, of, may_be_secret=of is not None)

    # --- sources --------------------------------------------------------------------------------------

    def source(self, key: Key, origin: Origin, part: str = "") -> Source:
        """The elements that an origin stands for in a part of a definition."""
        if isinstance(origin, InMemory):
            return self.memory.search(origin.condition)
        bits = self._bits(key, origin, part)
        if bits not in self._sources:
            self._sources[bits] = Places(self._of_bits(bits))
        return self._sources[bits]

    def places(self, key: Key, origin: Origin, part: str = "") -> Iterator[Place]:
        """The places that an origin stands for, unless it is all of memory."""
        return self._of_bits(self._bits(key, origin, part))

    def given(self, key: Key, part: str) -> list[Place]:
        """The outputs of a part, without what runs return to it."""
        return list(self._of_bits(self.outputs.given(key, part)))

    def follow_returns(self) -> None:
        """Determine what runs return, which may be what they got from runs that they called."""
        returns = {}
        for key, followed in self.followed.items():
            gives = followed.flow.gives
            own = any(not isinstance(of, GivenBy) or of.errors for of in gives)
            parts = tuple(of.part for of in gives if isinstance(of, GivenBy))
            returns[key] = Returns(followed.run.bit if own else 0, parts)
        self.outputs.follow(returns)

    def _of_bits(self, bits: int) -> Iterator[Place]:
        """The places of a set, in the order in which they were made."""
        while bits:
            lowest = bits & -bits
            yield self._places[lowest.bit_length() - 1]
            bits ^= lowest

    def _bits(self, key: Key, origin: Origin, part: str = "") -> int:
        """The places that an origin stands for, as a set."""
        run = self.followed[key].run.bit
        match origin:
            case ThisRun():
                return run
            case TheArgument(at):
                return self.arguments[key, part, at].bit
            case GivenBy(of_part, errors, fits):
                bits = self.outputs.of_part(key, of_part)
                fitting = -1 if fits is None else self.memory.fitting(fits)
                return bits & (fitting | self._runs) | (run & fitting if errors else 0)
        return 0

    def called(self, followed: Followed, call: CallFlow) -> list[Key]:
        """The definitions whose runs a call can start."""
        if not is_run(call.kind):
            return []
        libraries = self._home.libraries if call.agent else (followed.library,)
        of_group = followed.definition.group
        called = (of for each in libraries for of in each.called(call.kind, call.target, of_group))
        return list(dict.fromkeys(key_of(of) for of in called))

    def with_called(self, keys: Iterable[Key]) -> list[Key]:
        """The definitions, and those whose runs they start by calls within the agent."""
        pending = [key for key in keys if key in self.followed]
        seen = set(pending)
        for key in pending:
            for call in self.followed[key].flow.calls:
                called = [one for one in self.outputs.called(key, call.part) if one not in seen]
                pending += dict.fromkeys(called)
                seen.update(called)
        return pending


class _Answers:
    """Answers of other agents: what definitions there give back enters the memory of their callers.

    An answer may be made of the answer of a third agent, and so on in a circle. So answers are passed on
    until there are no new ones, and what came from one place is one place at each part that gets it.
    """

    def __init__(self, land: Landscape) -> None:
        self._land = land
        self._places: dict[tuple[Key, str, int], Place] = {}
        """The places of answers, by the part that gets them and the node where they first came from."""
        self._first: dict[int, int] = {}
        """The node where an answer first came from, by that of its own place."""
        self._passed_on = set[tuple[Key, str, Key, int]]()
        """The part that got something, the definition that gave it, and the node of the place there."""

    def pass_on(self) -> None:
        """Make the places of all answers, and connect them."""
        land, before = self._land, -1
        calls = [(of, call) for of in land.followed.values() for call in of.flow.calls if call.agent]
        while before < len(self._passed_on):
            before = len(self._passed_on)
            land.follow_returns()
            for to, call in calls:
                for there in (land.followed[called] for called in land.called(to, call)):
                    for source in (
                        one for gives in there.flow.gives for one in land.places(there.key, gives)
                    ):
                        self._pass_on(source, there, to, call)

    def _pass_on(self, source: Place, there: Followed, to: Followed, call: CallFlow) -> None:
        node, land = source.nodes[""], self._land
        step = to.key, call.part, there.key, node
        if step in self._passed_on:
            return
        self._passed_on.add(step)
        at = to.key, call.part, self._first.get(node, node)
        if at not in self._places:
            place = land.place(f"what {call.target} gives back", to.definition, call.part)
            self._places[at], self._first[place.nodes[""]] = place, at[2]
            land.outputs.give(to.key, call.part, place.bit)
            land.memory.enter_as(place, source)
        place = self._places[at]
        land.graph.connect((*source.of_part(""), there.run.whether), [place.nodes[""]])
        land.graph.connect([source.whether, to.run.whether], [place.whether])


def _undoing(calls: Iterable[CallFlow], library: Library) -> Iterator[CallFlow]:
    """The undo calls for calls whose target has an undoing action: each input takes what matches of the
    inputs and results of the original call.
    """
    for call in calls:
        target = library.get(call.kind, call.target) if call.kind in KINDS else None
        name = call.undo or (target.undo if isinstance(target, Action) else "")
        action = library.get(Action.kind, name) if name else None
        if isinstance(action, Action):
            sources = dict.fromkeys((*call.takes, *call.elements))
            sources[Taken(GivenBy(call.part, True))] = None
            inputs = {
                slot.id: tuple(_which_fit(slot.condition, call, sources)) for slot in action.prototype.inputs
            }
            yield CallFlow(
                f"undo of {call.part}",
                Action.kind,
                action.full_name,
                call.line,
                prototype=action.prototype,
                inputs=inputs,
                undoes=call.part,
            )


def _which_fit(fits: Condition, call: CallFlow, sources: Iterable[Taken]) -> Iterator[Taken]:
    """The elements of a call that may match."""
    for taken in sources:
        match taken.origin:
            case TheArgument(at) if not may_be(fits, call.arguments[at].literal):
                pass
            case InMemory(condition) if not may_be(fits, condition):
                pass
            case GivenBy():
                yield taken._replace(origin=taken.origin._replace(fits=fits))
            case _:
                yield taken


def keeps_of(call: CallFlow, output: Output) -> list[Keep]:
    """The parts of an output that pass on parts of inputs."""
    return [keep for keep in call.prototype.keeps if keep.part.slot == output.id]


def is_run(kind: str) -> bool:
    """True for a kind of definitions that are run."""
    return kind in KINDS and bool(KINDS[kind].run)
