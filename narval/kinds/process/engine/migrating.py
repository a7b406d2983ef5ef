"""Migration: a process continues with another version, from where its tokens are.

Nodes are matched by name, arcs by ends and name. Since a process can go back anywhere, every token needs a
place in the new version, even one that has left its node: the node must have the same join, and the token
must have left on the arcs that it would take now. Unchanged waits continue; changed ones are decided again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

import msgspec

from narval.core.engines import commands
from narval.core.engines.events import Migrated
from narval.core.engines.run_state import Migration, MovedPart, NoPlace, copied, misnamed, renamed
from narval.kinds.process.engine.changes import NodeTokenAccepted, ProcessMigrated
from narval.kinds.process.engine.decision import ProcessDecision
from narval.kinds.process.engine.explain import state_of
from narval.kinds.process.engine.state import NodeToken, ProcessState
from narval.kinds.process.engine.tokens import flow
from narval.kinds.process.language.definition import SCRIPT, Arc, Node, Process

ACCEPTED, DELAYED, DISCARDED = "AcceptToken", "DelayUntil", "DiscardToken"


def migrated(old: Process, new: Process, state: ProcessState, names: Mapping[str, str]) -> Migration:
    """The process in another version; `names` maps the old names of renamed nodes to the new ones."""
    why = ""
    if state.status != "executing":
        why = f"the process is {state.status}: one that has not begun, or is about to end, is not migrated"
    elif state.undoing or state.hooks:
        why = "the process goes back, and its nodes undo what they did; try again then"
    if why:
        return Migration(state, refused=(NoPlace("", why, old.line, True),))
    if faults := misnamed(names, old.nodes, new.nodes):
        return Migration(state, refused=tuple(faults))
    return _Moving(old, new, state, renamed(names, old.nodes, new.nodes)).migration()


def follow_version(decision: ProcessDecision, event: Migrated) -> list[Callable[[], object]]:
    """Continue with another version; return the acts that decide changed waits again."""
    state, after = decision.state, msgspec.msgpack.decode(event.state, type=ProcessState)
    before = {number: state.nodes[number].guard for number in state.active_nodes}
    anew = _lost(state, after)
    for watch in state.watches:
        if watch not in after.watches:
            decision.command(commands.Unwatch(watch))
    for wake in state.delayed:
        if wake not in after.delayed:
            decision.command(commands.CancelTimer(wake))
    waited = tuple(state.active_arcs)
    decision.change(ProcessMigrated(event.version, after))
    anew |= {
        number: before[number]
        for number in state.active_nodes
        if not state.nodes[number].guard and before.get(number)
    }
    acts: list[Callable[[], object]] = [
        partial(_decide, decision, number, guard) for number, guard in anew.items()
    ]
    if any(number in state.arcs and state.arcs[number].pending for number in waited):
        acts.append(partial(flow.run_queue, decision))
    return acts


def _lost(state: ProcessState, after: ProcessState) -> dict[int, str]:
    """Stop the waits that are no longer in force, as after a return to an earlier version. Return the tokens
    that had them, each with the answer of its guard.
    """
    lost: dict[int, str] = {}
    for waits, in_force in ((after.watches, state.watches), (after.delayed, state.delayed)):
        for name in tuple(waits):
            if name not in in_force:
                token = after.nodes[waits[name]]
                lost[token.id] = token.guard
                _ask_anew(after, token)
    return lost


def _decide(decision: ProcessDecision, number: int, guard: str) -> None:
    """Decide a token again, unless an earlier one has ended it or the process. Raises NodeFault."""
    if decision.state.status != "executing" or number not in decision.state.active_nodes:
        return
    token = decision.state.nodes[number]
    if guard == ACCEPTED:
        decision.change(NodeTokenAccepted(number))
        flow.execute(decision, decision.node(token), token)
    else:
        flow.run_node(decision, decision.node(token), token)


def _stop_waiting(state: ProcessState, token: NodeToken) -> None:
    """Stop a token's waits for elements and for a moment."""
    state.watches.pop(token.watch, None)
    state.delayed.pop(token.wake, None)
    token.watch = token.wake = ""


def _ask_anew(state: ProcessState, token: NodeToken) -> None:
    """Stop the waits of a token and drop its guard's answer, so that it is decided again."""
    _stop_waiting(state, token)
    token.guard = ""


class _Moving:
    """One migration of a process; `nodes` maps the names of nodes to those in the new version."""

    def __init__(self, old: Process, new: Process, state: ProcessState, nodes: Mapping[str, str]) -> None:
        self.old, self.new, self.before, self.nodes = old, new, state, nodes
        self.after = copied(state)
        there: dict[object, list[int]] = {}
        for arc in reversed(new.arcs):
            there.setdefault((arc.start.id, arc.end.id, arc.name, arc.back), []).append(arc.index)
        self.arcs: dict[int, int] = {}
        """The place in the new version of each arc that still exists."""
        for arc in old.arcs:
            alike = there.get((nodes.get(arc.start.id), nodes.get(arc.end.id), arc.name, arc.back))
            if alike:
                self.arcs[arc.index] = alike.pop()

    def migration(self) -> Migration:
        """The plan of the migration."""
        refused = tuple(dict.fromkeys(self._without_place())) or tuple(dict.fromkeys(self._otherwise()))
        if not refused:
            self._decide_anew()
            self._rename()
        newest = self.before.newest
        keeps = (
            MovedPart(node, self.nodes[node], state_of(self.before, node))
            for node in self.old.nodes
            if node in newest and node in self.nodes
        )
        had = {*self.nodes.values()}
        new = tuple(node for node in self.new.nodes if node not in had)
        return Migration(self.after, tuple(keeps), new=new, refused=refused)

    # --- whether the tokens have a place -------------------------------------------------------------------

    def _without_place(self) -> Iterator[NoPlace]:
        """The nodes and arcs of tokens that the new version lacks."""
        for token in self.before.nodes.values():
            if token.node not in self.nodes:
                does = "is on" if token.completed is None else "has passed"
                why = f"a token {does} node {token.node}, and the new version has no such node"
                yield NoPlace(token.node, why, self.old.nodes[token.node].line, True)
        for arc_token in self.before.arcs.values():
            arc = self.old.arcs[arc_token.arc]
            if arc.index in self.arcs or not {arc.start.id, arc.end.id} <= self.nodes.keys():
                continue
            does = "has gone" if arc_token.complete else "is on the way"
            named = f" on the arc {arc.name}" if arc.name else ""
            why = f"a token {does} from {arc.start.id} to {arc.end.id}{named}, and the new version"
            yield NoPlace(arc.start.id, f"{why} has no such arc", arc.line, True)

    def _otherwise(self) -> Iterator[NoPlace]:
        """The nodes whose tokens could not exist in a process of the new version."""
        yield from self._begun_otherwise()
        for token in self.before.nodes.values():
            before, then = self.old.nodes[token.node], self.new.nodes[self.nodes[token.node]]
            if token.parents and not self._joins_alike(before, then):
                why = f"tokens have come together at node {then.id}, and its join has changed, or the arcs"
                yield NoPlace(then.id, f"{why} that lead there are", then.line)
            if token.completed is None:
                why = _under_way(token, before, then)
            else:
                why = self._left_otherwise(token, before, then)
            if why:
                yield NoPlace(then.id, why, then.line)
        for number in self.before.active_arcs:
            to = self.before.arcs[number].to
            before, then = self.old.nodes[to], self.new.nodes[self.nodes[to]]
            if _join(before) != _join(then):
                why = f"a token waits at node {then.id} for others, and its join has changed"
                yield NoPlace(then.id, why, then.line)

    def _begun_otherwise(self) -> Iterator[NoPlace]:
        tokens = self.before.nodes.values()
        began = {self.nodes[one.node] for one in tokens if not one.parents and one.reverses is None}
        starts = {node.id for node in self.new.start_nodes}
        for id in sorted(began ^ starts):
            then = self.new.nodes[id]
            why = (
                f"the process has begun with node {id}, which is no start node now"
                if id in began
                else f"node {id} is a start node now, and the process has begun without it"
            )
            yield NoPlace(id, why, then.line)

    def _joins_alike(self, before: Node, then: Node) -> bool:
        return _join(before) == _join(then) and (
            before.join in ("or", "first") or self._has_same_ins(before, then)
        )

    def _has_same_ins(self, before: Node, then: Node) -> bool:
        return Counter(self.arcs.get(arc.index) for arc in before.ins) == Counter(
            arc.index for arc in then.ins
        )

    def _left_otherwise(self, token: NodeToken, before: Node, then: Node) -> str:
        """The reason why a token could not leave its node now as it did; "" if it could."""
        if token.guard == DISCARDED or token.cancelled:
            return ""
        children = (self.before.arcs[child] for child in token.children)
        left = {self.old.arcs[child.arc].name for child in children if child.reverses is None}
        if not left and not then.outs_by_name.keys() <= before.outs_by_name.keys():
            return f"a token has ended at node {then.id}, from which an arc leads on now"
        for name in left:
            were: Iterable[Arc] = before.outs_by_name.get(name, ())
            are = Counter(arc.index for arc in then.outs_by_name.get(name, ()))
            if Counter(self.arcs.get(arc.index) for arc in were) != are:
                named = f"the arcs {name}" if name else "its arcs"
                return f"a token has left node {then.id} on {named}, which lead elsewhere now"
        return ""

    # --- the state in the new version ----------------------------------------------------------------------

    def _decide_anew(self) -> None:
        """Reset the waits that have changed, so that they are decided again."""
        after = self.after
        for number in tuple(after.active_nodes):
            token = after.nodes[number]
            before, then = self.old.nodes[token.node], self.new.nodes[self.nodes[token.node]]
            if token.guard == DELAYED and before.guard_text != then.guard_text:
                _ask_anew(after, token)
            elif token.guard != ACCEPTED or number in after.failed or self._waits_alike(before, then):
                continue
            elif then.conditions:
                _ask_anew(after, token)
            else:
                _stop_waiting(after, token)
        for number in tuple(after.active_arcs):
            arc_token = after.arcs[number]
            before, then = self.old.nodes[arc_token.to], self.new.nodes[self.nodes[arc_token.to]]
            if arc_token.waits and not self._has_same_ins(before, then):
                after.deactivate_arc(arc_token)
                arc_token.pending = True
                after.queue.join(number)

    def _waits_alike(self, before: Node, then: Node) -> bool:
        """True if a node waits for the same elements: its conditions are equal, and their variables name the
        same nodes.
        """
        beside = "".join(f"{name}:" for name in then.external)
        variables = frozenset[str]().union(*(one.condition.variables for one in then.conditions))
        named = (f"{beside}{variable}" for variable in variables)
        return before.conditions == then.conditions and all(
            self.nodes.get(id) == id for id in named if id in self.new.nodes or id in self.old.nodes
        )

    def _rename(self) -> None:
        """Give the tokens the node names and arc places of the new version."""
        after, nodes = self.after, self.nodes
        for token in after.nodes.values():
            token.node = nodes[token.node]
        for arc_token in after.arcs.values():
            arc_token.arc, arc_token.to = self.arcs[arc_token.arc], nodes[arc_token.to]
        for token_set in after.sets.values():
            token_set.heading = {nodes[node]: count for node, count in token_set.heading.items()}
        after.standing = {nodes[node]: tokens for node, tokens in after.standing.items()}
        after.newest = {nodes[node]: token for node, token in after.newest.items()}
        lines = after.waiting.items()
        after.waiting = {self._moved_place(place): line for place, line in lines}

    def _moved_place(self, place: str) -> str:
        """The place in the new version in which arc tokens wait."""
        arc, stroke, member = place.partition("/")
        return f"{self.arcs[int(arc)]}{stroke}{member}"


def _join(node: Node) -> tuple[str, str]:
    return node.join, node.join_text


def _under_way(token: NodeToken, before: Node, then: Node) -> str:
    """The reason why a node with a token on it cannot change as it did; "" if there is none."""
    changed, is_limited = "", then.agent or then.calls_run
    if before.type != then.type:
        changed = "its type"
    elif token.call and (before.target, before.agent) != (then.target, then.agent):
        changed = "what it calls"
    elif token.call and is_limited and before.text_of("timeout") != then.text_of("timeout"):
        changed = "its `timeout`"  # the engine keeps it, and has a timer for it
    elif token.queued and then.type == SCRIPT and not then.text_of("execute"):
        changed = "its script"
    return f"a token is on node {then.id}, and {changed} has changed; wait until it ends" * bool(changed)
