"""Reach: which labels can reach which part of which call, determined before anything runs.

The definitions of a home form one graph. Its nodes are the parts of all elements that can exist, and the
runs; an edge leads from what is read to what is made from it. A label starts where something comes in, and
follows the edges: no run can bring it to anything it does not reach. An element found in memory may be any
that can match, so the graph has more paths than a run takes, and never fewer.

Two special kinds of edges are distinguished. An edge of *memory* is taken only if an input finds nothing
nearer, and takes a match from all of memory. An edge of *code* is taken only if code that does not declare
what it passes on passes it on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from narval.core.definitions.action.definition import Action
from narval.core.definitions.library import Definition
from narval.core.definitions.people.directory import BY_A_RULE, DESTROYING
from narval.core.definitions.prototype import REPLACES, Output
from narval.core.definitions.telling.sentence import verbatim
from narval.core.elements.names import STARTING, TARGET, TASK
from narval.core.engines.commands import FLOW, NOTICE, PROGRAM
from narval.core.kinds import ASKING, KINDS
from narval.core.memory.labels import FILE as OF_FILES
from narval.core.memory.labels import MODEL
from narval.core.memory.labels import PROGRAM as OF_PROGRAMS
from narval.core.patterns.pattern import Condition, condition
from narval.core.trust.flow import CallFlow, Literal, Taken, TheArgument
from narval.core.trust.landscape import Followed, KnownHome, Landscape, is_run, keeps_of, key_of
from narval.core.trust.needs import gives_paths, may_be_closed, may_copy, may_read, may_write
from narval.core.trust.outputs import Key
from narval.core.trust.parts import VALUES, where_in
from narval.core.trust.paths import SlotPath, is_within
from narval.core.trust.places import CODE, MEMORY, PLAIN, SECRETS, Place, Source
from narval.core.trust.ways_out import says_receiver, ways_out


class ReachedPart(NamedTuple):
    """A part of a call, with the labels that can reach it."""

    input: str
    """The id of the input; "" is what decides that the call is made."""
    path: str
    """The path of the piece; "" for everything in no other part."""
    where: bool
    """True if it says where the call goes."""
    labels: frozenset[str]
    """The labels that come by what the definitions declare."""
    by_memory: frozenset[str]
    """The labels that come only if an input finds nothing nearer and takes a match from memory."""
    by_code: frozenset[str]
    """The labels that come only if code that does not declare what it passes on passes them on."""
    node: int
    """Its node in the graph."""

    @property
    def all(self) -> frozenset[str]:
        """All labels that can reach it."""
        return self.labels | self.by_memory | self.by_code


class ReachedCall(NamedTuple):
    """A call of code or of a program, with what can reach its parts."""

    definition: Definition
    """The definition whose runs make it."""
    call: CallFlow
    """The part that makes it."""
    action: Action | None
    """The action; None if the target is not an action, or not loaded."""
    parts: tuple[ReachedPart, ...]
    """The parts of its inputs; last, without an input, what decides that it is made."""


class WayStep(NamedTuple):
    """A place on a label's path: its title, and the definition and part that make it."""

    words: str
    definition: str = ""
    part: str = ""


class _PartNode(NamedTuple):
    """A part of an input of a call, and its node."""

    input: str
    path: str
    where: bool
    node: int


_Call = tuple[CallFlow, Action | None, list[_PartNode]]
"""A call with the action and the parts of its inputs."""

_Calls = dict[Key, list[_Call]]
"""The calls of each definition."""


class Reach:
    """The labels that can reach each part of each call that a home's definitions can make."""

    def __init__(self, home: KnownHome) -> None:
        self._home, self._land = home, Landscape(home)
        self._calls: _Calls = {}
        for followed in self._land.followed.values():
            self._make_edges(followed)
        for followed in self._land.followed.values():
            self._leave(followed)
        _ask_about(self._land, self._calls, home.approvals)
        self._start_runs()

    # --- answers --------------------------------------------------------------------------------------

    @property
    def definitions(self) -> list[Definition]:
        """The definitions that are run, in file order."""
        definitions = (followed.definition for followed in self._land.followed.values())
        return sorted(definitions, key=lambda definition: (definition.path, definition.line, definition.kind))

    def with_called(self, definitions: Iterable[Definition]) -> list[Definition]:
        """The definitions, and those whose runs they start by calls, in file order."""
        keys = self._land.with_called(map(key_of, definitions))
        return [definition for definition in self.definitions if key_of(definition) in keys]

    def calls_of(self, definition: Definition) -> list[ReachedCall]:
        """The calls of actions and programs that runs of a definition can make, undo calls last."""
        followed = self._land.followed.get(key_of(definition))
        if followed is None:
            return []
        whether = self._reached(_PartNode("", "", False, followed.run.whether))
        return [
            ReachedCall(definition, call, action, (*map(self._reached, parts), whether))
            for call, action, parts in _made_by(followed, self._land, self._calls)
        ]

    def way(self, part: ReachedPart, label: str) -> list[WayStep]:
        """The places on a label's path to a part, from where it comes in; [] if it does not reach it. A
        secret comes in as an element that matches its pattern.
        """
        steps: list[WayStep] = []
        fits = self._home.pattern_of(label)
        for at, node in enumerate(self._land.graph.way(part.node, label)):
            if node in self._land.owner:
                place, path = self._land.owner[node]
                words = f"{path} of {place.title}" if path else place.title
                words += f", if it fits {verbatim(fits)}" if fits and not at else ""
                name = place.definition.full_name if place.definition is not None else ""
                step = WayStep(words, name, place.part)
                if step not in steps[-1:]:
                    steps.append(step)
            elif fits and not at:
                steps.append(WayStep(f"what is in memory and fits {verbatim(fits)}"))
        return steps

    def _reached(self, part: _PartNode) -> ReachedPart:
        plain, by_memory, by_code, by_both = self._land.graph.labels(part.node)
        return ReachedPart(part.input, part.path, part.where, plain, by_memory, by_code | by_both, part.node)

    # --- edges ----------------------------------------------------------------------------------------

    def _make_edges(self, followed: Followed) -> None:
        self._land.graph.edge(followed.own, followed.run.whether)
        for origin in followed.flow.holds:
            self._hold(followed, self._land.source(followed.key, origin))
        for label in followed.flow.labels:
            self._land.graph.seed(followed.own, label)
        if followed.flow.labels:
            self._land.graph.edge(self._land.files, followed.own, CODE)
        if followed.flow.writes_files:
            self._land.graph.edge(followed.own, self._land.files, CODE)
        for call in followed.flow.calls:
            self._make_edges_of_call(followed, call)

    def _make_edges_of_call(self, followed: Followed, call: CallFlow) -> None:
        for at, written in enumerate(call.arguments):
            place = self._land.arguments[followed.key, call.part, at]
            self._land.graph.edge(followed.run.whether, place.whether)
            for path, values in written.parts.items():
                for value in values:
                    source = self._land.source(followed.key, value.origin, call.part)
                    self._land.graph.connect(source.of_part(value.path), [place.nodes[path]])
            self._land.graph.connect(place.nodes.values(), [followed.own])
        for taken in (*call.takes, *call.elements):
            self._hold(followed, self._land.source(followed.key, taken.origin, call.part), _kind(taken))
        if is_run(call.kind):
            for called in self._land.called(followed, call):
                self._land.graph.edge(followed.run.whether, self._land.followed[called].run.whether)
                self._land.graph.edge(self._land.followed[called].own, followed.own)
        elif not call.sends:
            self._make_edges_of_action(followed, call)

    def _make_edges_of_action(self, followed: Followed, call: CallFlow) -> None:
        target = followed.library.get(call.kind, call.target) if call.kind in KINDS else None
        action = target if isinstance(target, Action) else None
        labels = list(_labels_of(self._home, call, action))
        for label in labels:
            self._land.graph.seed(followed.own, label)
        for output, place in zip(
            call.prototype.outputs, self._land.given(followed.key, call.part), strict=False
        ):
            self._make_edges_of_output(followed, call, output, place, labels)
            self._land.graph.edge(followed.run.whether, place.whether)
            self._land.graph.connect(place.nodes.values(), [followed.own])
            if not KINDS[followed.definition.kind].knows_inputs:
                self._land.graph.connect([followed.run.whether], place.nodes.values())
        self._make_edges_of_files(followed, call, action)
        where = None if action is None else action.says_where
        parts = [_PartNode("inputs", "", True, followed.run.whether)] if call.kind == FLOW else []
        parts += _parts_of(self._land, followed, call, where)
        if action is not None and may_copy(action):
            contents = [part.node for part in parts if not part.path]
            self._land.graph.connect([self._land.files], contents, CODE)
        self._calls.setdefault(followed.key, []).append((call, action, parts))

    def _leave(self, followed: Followed) -> None:
        """Add what goes to agents of other homes, or is written to people, as calls, after those made in the
        home.
        """
        for call in ways_out(followed.definition, followed.flow, self._home):
            parts = list(_parts_of(self._land, followed, call, says_receiver(call)))
            if not KINDS[followed.definition.kind].knows_inputs:
                parts.append(_PartNode(VALUES, "", False, followed.run.whether))
            self._calls.setdefault(followed.key, []).append((call, None, parts))

    def _make_edges_of_output(
        self, followed: Followed, call: CallFlow, output: Output, place: Place, labels: list[str]
    ) -> None:
        keeps = {keep.part.path: keep.sources for keep in keeps_of(call, output)}
        code = PLAIN if keeps or output.own or labels else CODE
        for path, node in place.nodes.items():
            own = SECRETS if path in output.own and path not in keeps else PLAIN
            for slot, takes in call.inputs.items():
                pieces = (
                    [source.path for source in keeps[path] if source.slot == slot] if path in keeps else [""]
                )
                for taken in takes if pieces else ():
                    source = self._land.source(followed.key, taken.origin, call.part)
                    kind = _kind(taken) | (PLAIN if path in keeps else code) | own
                    for piece in pieces:
                        self._land.graph.connect(source.of_part(piece), [node], kind)
            for label in labels if not own and path not in keeps else ():
                self._land.graph.seed(node, label)
        if output.replaces and (names := _replaced(output)):
            self._land.graph.connect(self._land.memory.search(names).of_part(""), place.nodes.values())

    def _make_edges_of_files(self, followed: Followed, call: CallFlow, action: Action | None) -> None:
        """Connect what is written into files to what is read from them, and to the home's own files."""
        if action is not None and may_copy(action) and _names_closed(call):
            self._land.graph.connect([self._land.closed], [self._land.files], CODE)
        if action is not None and may_write(action):
            code = PLAIN if gives_paths(action) else CODE
            for taken in call.takes:
                source = self._land.source(followed.key, taken.origin, call.part)
                self._land.graph.connect(source.of_part(""), [self._land.files], _kind(taken) | code)
            if not KINDS[followed.definition.kind].knows_inputs:
                self._land.graph.connect([followed.run.whether], [self._land.files], code)
        if call.kind == PROGRAM or (action is not None and may_read(action)):
            code = CODE if action is None or action.label != OF_FILES else PLAIN
            files = [self._land.files]
            if action is not None and action.label == OF_FILES and _names_closed(call):
                files.append(self._land.closed)
            self._land.graph.connect(files, [followed.own], code)
            outputs = self._land.given(followed.key, call.part)
            for output, place in zip(call.prototype.outputs, outputs, strict=False):
                keeps = {keep.part.path for keep in keeps_of(call, output)}
                for path, node in place.nodes.items():
                    if path not in keeps:
                        own = SECRETS if path in output.own else PLAIN
                        self._land.graph.connect(files, [node], code | own)

    def _start_runs(self) -> None:
        """Give runs the labels of the element that starts them, and of the run that made it."""
        anyone = self._land.graph.node()
        by_name: dict[str, list[int]] = {}
        for followed in self._land.followed.values():
            by_name.setdefault(followed.definition.full_name, []).append(followed.run.whether)
            self._land.graph.edge(anyone, followed.run.whether)
        for place, of in self._land.memory.named(*STARTING):
            if (
                place.definition is not None
                and place.whether == self._land.followed[key_of(place.definition)].run.whether
            ):
                continue  # errors and runs start nothing
            attributes = dict(of.attributes) if isinstance(of, Literal) else {}
            target = attributes.get(TARGET) or attributes.get(TASK)
            to = by_name.get(target, []) if target else [anyone]
            self._land.graph.connect((*place.nodes.values(), place.whether), to)
        for followed, call, taken, place in self._land.moved:
            source = self._land.source(followed.key, taken.origin, call.part)
            self._land.graph.connect(
                (*source.of_part(""), followed.run.whether), [place.nodes[""]], _kind(taken)
            )
            self._land.graph.connect([*source.whether(), followed.run.whether], [place.whether])

    def _hold(self, followed: Followed, source: Source, kind: int = PLAIN) -> None:
        """Give runs all labels of what they hold."""
        self._land.graph.connect((*source.of_part(""), *source.whether()), [followed.own], kind)


def _parts_of(
    land: Landscape, followed: Followed, call: CallFlow, where: Iterable[SlotPath] | None
) -> Iterator[_PartNode]:
    """The parts of each input of a call, each with a node reached by everything it can be."""
    for slot, takes in call.inputs.items():
        sources = [(land.source(followed.key, taken.origin, call.part), _kind(taken)) for taken in takes]
        declared = where_in(slot, where)
        paths = {path for source, _ in sources for path in source.paths}.union(declared or ()) - {""}
        for path in (*sorted(paths), ""):
            node = land.graph.node()
            for source, kind in sources:
                land.graph.connect(source.of_part(path) if path else source.rest(), [node], kind)
            says = declared is None or path in declared
            if declared and path:
                says = any(is_within(path, one) or is_within(one, path) for one in declared)
            yield _PartNode(slot, path, says, node)


def _ask_about(land: Landscape, calls: _Calls, approvals: Iterable[tuple[str, str]]) -> None:
    """Connect the inputs of calls to the work that asks for approval, and shows them."""
    asking = [followed for followed in land.followed.values() if followed.definition.kind == ASKING]
    for key, made in calls.items() if asking else ():
        for call, _, parts in made:
            names = {BY_A_RULE, DESTROYING, call.approve}
            names.update(work for action, work in approvals if action == call.target)
            shows = [of.own for of in asking if of.definition.full_name in names and call.kind != NOTICE]
            land.graph.connect((*(part.node for part in parts), land.followed[key].run.whether), shows)


def _made_by(followed: Followed, land: Landscape, calls: _Calls) -> Iterator[_Call]:
    """The calls that runs of a definition make, in order, then those that undo what these runs and the runs
    that they called have done.
    """
    yield from (one for one in calls.get(followed.key, ()) if not one[0].undoes)
    for key in land.with_called([followed.key] if KINDS[followed.definition.kind].undoes else ()):
        of = land.followed[key]
        for call, action, parts in calls.get(key, ()):
            if call.undoes and of is not followed:
                part, line = f"{call.part} of {of.definition.full_name}", followed.definition.line
                yield msgspec.structs.replace(call, part=part, line=line), action, parts
            elif call.undoes:
                yield call, action, parts


def _labels_of(home: KnownHome, call: CallFlow, action: Action | None) -> Iterator[str]:
    """The labels that a call brings in."""
    if call.kind == PROGRAM:
        yield OF_PROGRAMS
    if action is not None and action.label:
        yield action.label
    if action is not None and action.model:
        named = _models_written(call, action.model)
        names = {*home.models, "*"} if named is None else named
        yield from (f"{MODEL}{name}" for name in sorted(names - home.trusted))


def _names_closed(call: CallFlow) -> bool:
    """True if an input element of a call may name a file in a closed part of the home."""
    for taken in call.takes:
        match taken.origin:
            case TheArgument(at) if not call.undoes:
                if may_be_closed(dict(call.arguments[at].literal.attributes)):
                    return True
            case _:
                return True
    return False


def _kind(taken: Taken) -> int:
    return MEMORY if taken.fallback else PLAIN


def _replaced(output: Output) -> Condition | None:
    """The condition on the elements that an output replaces."""
    written = REPLACES.fullmatch(output.replaces or "")
    if written is None:
        return None
    return condition(written["name"]) if written["name"] else output.condition


def _models_written(call: CallFlow, slot: str) -> frozenset[str] | None:
    """The language models that the author names; None if others are possible."""
    names: set[str] = set()
    for taken in call.inputs.get(slot, ()):
        if not isinstance(taken.origin, TheArgument):
            return None
        written = dict(call.arguments[taken.origin.at].literal.attributes).get("model", "")
        if written is None:
            return None
        names.add("_".join(written.split()) or "*")
    return frozenset(names) or None
