"""Process: nodes, and the arcs between them that tokens move along (sections 1 and 13).

A process is composed before it runs: its nodes include copies of the nodes of its externals. Nodes and arcs
are in *graph order*, nodes of externals first, which is the order in which tokens are made. `link` numbers
them and makes them point at each other, so that following a token never needs a lookup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Literal

import msgspec

from narval.core.definitions.library import RunDefinition
from narval.core.definitions.prototype import TransitionCondition
from narval.core.definitions.reading.script_text import ScriptText
from narval.core.definitions.remote_calls import RemoteCall, called
from narval.core.kinds import KINDS
from narval.core.patterns.pattern import Condition
from narval.kinds.process.language.statements import Discard, Join, Result, Statement

JoinType = Literal["or", "and", "labelAnd", "tokenSet", "tokenSetOr", "class", "first", "joinlang"]

CALLS: Mapping[str, str] = {
    **{kind.run: name for name, kind in KINDS.items() if kind.run and kind.node},
    **{name: name for name, kind in KINDS.items() if kind.node},
}
"""The node types that call a definition, named as `target` in `custom`, and its kind."""

NODE, WAIT, SCRIPT, NESTED = "node", "wait", "script", "nested"
BUILT_IN = (NODE, WAIT, SCRIPT, NESTED, *CALLS)
"""The node types that need no user's class (sections 2 and 10).

A node of the type `node` completes on the default arc, and so does one of any undefined type. `wait` waits to
be completed, or for memory. The others call something: an action, a transform, a run or a script; and so does
a type with the user's class.
"""


WITH_PROTOTYPE = frozenset({"action", "transform"})
"""The kinds of targets that declare inputs and outputs; a run answers for any other."""
SCRIPTS = ("execute", "backtrack", "allowBacktrack")
"""The properties of a node of the type `script` that are scripts (section 10)."""


class MemoryGuard(msgspec.Struct, frozen=True):
    """`<guard type="xpath">`: a guard that accepts if an element of memory fits, else answers `otherwise`."""

    condition: Condition
    otherwise: Result = Discard()


Guard = Statement | MemoryGuard


class Node(msgspec.Struct, eq=False):
    """A place where tokens come to be (section 1)."""

    id: str
    """The name in the whole process: its own, or `EXTERNAL:NAME` if it was imported, outermost external
    first.
    """
    name: str
    """The name in its own process."""
    type: str = NODE
    """The type: one that is built in, or a node type of the library."""
    join: JoinType = "or"
    """The kind of join."""
    join_text: str = ""
    """The parameter of the join, as it is written."""
    joinlang: Join = ()
    """The parameter of the join, parsed, if it is JoinLang."""
    is_start: bool = False
    """True if a run begins with it."""
    guard: Guard | None = None
    """The guard, parsed."""
    guard_text: str = ""
    """The guard, as it is written."""
    conditions: tuple[TransitionCondition, ...] = ()
    """The conditions that a `wait` node waits for in memory."""
    cancels: frozenset[str] = frozenset()
    """The nodes whose tokens are cancelled when one leaves this node."""
    cancels_all: bool = False
    """True if all other tokens are cancelled."""
    custom: tuple[tuple[str, str], ...] = ()
    """Texts of custom elements, with dotted keys."""
    external: tuple[str, ...] = ()
    """The names of the externals that imported it, outermost first."""
    external_environment: Mapping[str, str] = {}
    """The attributes given for these externals; the outermost wins (section 8)."""
    origin: str = ""
    """The process that defines it, if it was imported."""
    line: int = 1
    """The line in the file."""
    places: Mapping[str, tuple[int, int]] = {}
    """The places in the file of the texts of custom elements, by key."""
    index: int = 0
    """The place in graph order."""
    ins: tuple[Arc, ...] = ()
    """The arcs that lead to it."""
    outs: tuple[Arc, ...] = ()
    """The arcs that leave it."""
    goes_back: bool = False
    """True if one of the arcs that leave it goes back."""
    ins_by_name: Mapping[str, tuple[Arc, ...]] = {}
    """The arcs that lead to it, by name."""
    outs_by_name: Mapping[str, tuple[Arc, ...]] = {}
    """The arcs that leave it, by name."""

    def text_of(self, key: str) -> str:
        """The text of a custom element, "" if there is none."""
        return next((text for name, text in self.custom if name == key), "")

    @property
    def target(self) -> tuple[str, str] | None:
        """Kind and name of the definition that the node calls, if its type calls one."""
        if self.type == NESTED:
            return Process.kind, self.text_of("graphName")
        kind = CALLS.get(self.type)
        return (kind, self.text_of("target")) if kind is not None else None

    @property
    def calls_run(self) -> bool:
        """True if a run answers the call of the node, and not code."""
        return self.target is not None and self.target[0] not in WITH_PROTOTYPE

    @property
    def agent(self) -> str:
        """The agent whose definition the node calls; "" for one of its own."""
        return self.text_of("agent") if self.target is not None else ""

    @property
    def called(self) -> str:
        """The target of the node in words; its type if that is code."""
        return called(*self.target, self.agent) if self.target is not None else self.type

    def __repr__(self) -> str:
        return f"<Node {self.id}: {self.type}>"


class Arc(msgspec.Struct, eq=False):
    """An edge from one node to another; "" is the default name. `index` is its place in graph order.

    No token travels on an arc that goes `back`: the process goes back to the ancestor token at its end.
    """

    start: Node
    end: Node
    name: str = ""
    back: bool = False
    line: int = 1
    index: int = 0

    def __repr__(self) -> str:
        return f"<Arc {self.start.id} -{self.name}-> {self.end.id}>"


class External(msgspec.Struct, frozen=True):
    """A process whose nodes were imported, by its name in the importing one; `custom` is as in nodes."""

    name: str
    definition: str
    custom: tuple[tuple[str, str], ...] = ()
    line: int = 1
    column: int = 1


class Listening(msgspec.Struct, frozen=True):
    """A listener to every run of a process; `mask` are the bits of its events (section 3)."""

    name: str
    mask: int


def link(nodes: Iterable[Node], arcs: Iterable[Arc]) -> tuple[tuple[Node, ...], tuple[Arc, ...]]:
    """Number nodes and arcs, which are in graph order, and link them to each other."""
    placed, linked = tuple(nodes), tuple(arcs)
    ins: dict[str, list[Arc]] = {node.id: [] for node in placed}
    outs: dict[str, list[Arc]] = {node.id: [] for node in placed}
    for at, arc in enumerate(linked):
        arc.index = at
        outs[arc.start.id].append(arc)
        if not arc.back:
            ins[arc.end.id].append(arc)
    for at, node in enumerate(placed):
        node.index = at
        node.ins, node.outs = tuple(ins[node.id]), tuple(outs[node.id])
        node.ins_by_name, node.outs_by_name = _by_name(node.ins), _by_name(node.outs)
        node.goes_back = any(arc.back for arc in node.outs)
    return placed, linked


def _by_name(arcs: Iterable[Arc]) -> Mapping[str, tuple[Arc, ...]]:
    by_name: dict[str, list[Arc]] = {}
    for arc in arcs:
        by_name.setdefault(arc.name, []).append(arc)
    return {name: tuple(named) for name, named in by_name.items()}


class DraftArc(msgspec.Struct, frozen=True):
    """An arc as in the file: each end is the name of an external, "" for none, and of a node there.

    `start_place` and `end_place` are where the file names them.
    """

    start: tuple[str, str]
    end: tuple[str, str]
    name: str = ""
    back: bool = False
    start_place: tuple[int, int] = (1, 1)
    end_place: tuple[int, int] = (1, 1)


class Draft(msgspec.Struct, frozen=True, eq=False):
    """A process as in its file, before its externals are imported, in graph order.

    `within` has the externals whose definitions are in the file, by name.
    """

    nodes: tuple[Node, ...]
    arcs: tuple[DraftArc, ...]
    within: Mapping[str, Process] = {}


class Process(RunDefinition, frozen=True, eq=False, kw_only=True):
    """The definition that tokens move through. `nodes` are by id; nodes and arcs are in graph order.

    `custom_id` is the SHA-1 that the source computes (section 13), `digest` names the version. `xml` is the
    definition as memory shows it, with the definitions of its externals in it. It has a `draft` if it imports
    other files: it is composed again when one of these changes.
    """

    kind: ClassVar[str] = "process"

    nodes: Mapping[str, Node] = {}
    arcs: tuple[Arc, ...] = ()
    externals: tuple[External, ...] = ()
    listeners: tuple[Listening, ...] = ()
    custom: tuple[tuple[str, str], ...] = ()
    custom_id: str = ""
    draft: Draft | None = None

    def line_of(self, part: str) -> int:
        """The line of its file on which a node begins."""
        node = self.nodes.get(part)
        return node.line if node is not None else self.line

    @property
    def waits(self) -> Iterator[tuple[str, tuple[TransitionCondition, ...]]]:
        """Its nodes, each with its conditions."""
        return ((node.id, node.conditions) for node in self.nodes.values())

    @property
    def remote_calls(self) -> Iterator[RemoteCall]:
        """The nodes that call definitions of other agents."""
        for node in self.nodes.values():
            if node.target is not None and node.agent:
                text = node.text_of("timeout")
                timeout = float(text) if text else None
                yield RemoteCall(node.agent, *node.target, f"node {node.name!r}", node.line, timeout)

    @property
    def start_nodes(self) -> tuple[Node, ...]:
        """The nodes that get a token when the process starts, in graph order; imported ones never do."""
        return tuple(node for node in self.nodes.values() if node.is_start and not node.external)

    @property
    def cannot_start(self) -> tuple[str, str] | None:
        """The reason why no run of it can begin: none of its nodes is a start node."""
        if self.start_nodes:
            return None
        return "no-start-node", f'process {self.full_name} cannot be started: no node has isStart="true"'

    def scripts(self) -> Iterator[ScriptText]:
        """The scripts of its own nodes (`HasScripts`)."""
        for node in self.nodes.values() if self.draft is None else self.draft.nodes:
            if node.type == SCRIPT and not node.external:
                for name in SCRIPTS:
                    place = node.places.get(name, (node.line, 1))
                    language = node.text_of(f"{name}Type")
                    yield ScriptText(name, node.text_of(name), language, self.path, *place)

    def named(self, name: str, external: tuple[str, ...] | None = None) -> tuple[Node, ...]:
        """The nodes with a name or an id; with `external`, only those imported that way."""
        exact = self.nodes.get(name)
        nodes = (exact,) if exact is not None else tuple(n for n in self.nodes.values() if n.name == name)
        return tuple(node for node in nodes if external is None or node.external == external)
