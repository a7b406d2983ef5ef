"""Joins: when a node token is made where an arc token arrives (sections 5, 6 and 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import merge
from typing import Any

import msgspec

from narval.core.engines.events import Plain
from narval.kinds.process.engine.decision import NodeFault, ProcessDecision
from narval.kinds.process.engine.state import ArcToken, ProcessState, place, place_of
from narval.kinds.process.engine.tokens.rubric import true_of
from narval.kinds.process.engine.tokens.views import arc_token_told
from narval.kinds.process.language.definition import Arc, Node
from narval.kinds.process.language.statements import ArcsRequired, NodeRequired, Requirement, SetRequired

WITHOUT_LINES = frozenset({"or", "first"})
"""Joins at which no token ever waits."""


class Joined(msgspec.Struct, frozen=True):
    """Tokens that join, in this order, into a new node token or `into` an existing one.

    Places in the sets that have `ended` are not passed on.
    """

    tokens: tuple[int, ...]
    ended: frozenset[int] = frozenset()
    into: int | None = None


def join(decision: ProcessDecision, node: Node, token: ArcToken) -> Joined | None:
    """The tokens that complete the join of a node when a token arrives, or None. Raises NodeFault."""
    return _JOINS[node.join](decision, node, token)


def merge_target(state: ProcessState, node: Node) -> int | None:
    """The newest node token of a node, unless it was backtracked or cancelled."""
    newest = state.newest.get(node.id)
    if newest is None or state.nodes[newest].backtracked or state.nodes[newest].cancelled:
        return None
    return newest


def _first(decision: ProcessDecision, node: Node, token: ArcToken) -> Joined | None:
    return Joined((token.id,), into=merge_target(decision.state, node))


def _and(decision: ProcessDecision, node: Node, token: ArcToken) -> Joined | None:
    return _one_of_each(decision, node.ins, token)


def _label_and(decision: ProcessDecision, node: Node, token: ArcToken) -> Joined | None:
    return _one_of_each(decision, node.ins_by_name[decision.definition.arcs[token.arc].name], token)


def _one_of_each(decision: ProcessDecision, arcs: Iterable[Arc], token: ArcToken) -> Joined | None:
    """The token that has waited longest on each arc, among the same members of the deepest set."""
    member = decision.state.deepest(token.sets)
    tokens = []
    for arc in arcs:
        first = decision.state.first_in(place_of(arc.index, member))
        if first is None:
            return None
        tokens.append(first)
    return Joined(tuple(tokens))


# --- token sets -----------------------------------------------------------------------------------------


def _token_set(decision: ProcessDecision, node: Node, token: ArcToken) -> Joined | None:
    if not token.sets:
        if node.join == "tokenSetOr":
            return Joined((token.id,))
        raise NodeFault("no-token-set", f"a token came to {node.id} that is in no token set", node)
    return _of_sets(decision.state, node, _chosen(decision.state, node.join_text, token))


def _chosen(state: ProcessState, name: str, token: ArcToken) -> list[int]:
    """The set of that name that the token is in, and its deeper sets; else its deepest set."""
    named = [number for number in token.sets if name and state.sets[number].name == name]
    if not named:
        deepest = state.deepest(token.sets)
        return [deepest[0]] if deepest is not None else []
    level = max(state.sets[number].level for number in named)
    return [number for number in token.sets if state.sets[number].level >= level]


def _of_sets(state: ProcessState, node: Node, chosen: list[int]) -> Joined | None:
    """The active tokens of the sets, if all are here; the sets then end."""
    if not all(state.sets[number].all_at(node.id) for number in chosen):
        return None
    tokens = dict.fromkeys(token for number in chosen for token in state.sets[number].arcs)
    return Joined(tuple(tokens), frozenset(chosen))


# --- JoinLang -------------------------------------------------------------------------------------------


class Gathered(msgspec.Struct, frozen=True):
    """The tokens that one requirement gathers, whether they are enough, and whether it applies."""

    tokens: tuple[int, ...]
    satisfied: bool
    applies: bool


def _by_requirements(decision: ProcessDecision, node: Node, token: ArcToken) -> Joined | None:
    """The tokens that the first set of requirements joins that is met."""
    parent, target = decision.state.nodes[token.parent], merge_target(decision.state, node)
    for requirements in node.joinlang:
        gathered = []
        for required in requirements:
            applies = required.when is None or true_of(decision, node, parent, required.when, target is None)
            gathered.append(Gathered(*_gather(decision, node, token, required), applies))
        joined = _decide(gathered, token.id, target)
        if joined is not None:
            return joined
    return None


def _decide(gathered: list[Gathered], token: int, target: int | None) -> Joined | None:
    """The tokens that join, into a new node token or the existing `target`; None if none do."""
    applicable = [part for part in gathered if part.applies]
    if any(token in part.tokens for part in applicable) and all(part.satisfied for part in applicable):
        return Joined(tuple(dict.fromkeys(one for part in gathered for one in part.tokens)))
    if target is None:
        return None
    others = tuple(dict.fromkeys(one for part in gathered if not part.applies for one in part.tokens))
    return Joined(others, into=target) if token in others else None


def _gather(
    decision: ProcessDecision, node: Node, token: ArcToken, required: Requirement
) -> tuple[tuple[int, ...], bool]:
    match required:
        case NodeRequired(node=name):
            return _from_node(decision, node, token, name)
        case SetRequired(name=name):
            return _of_set(decision, node, name)
        case ArcsRequired(least=least, label=label):
            arcs = node.ins if label is None else node.ins_by_name.get(label, ())
            firsts = (decision.state.first_in(place(arc.index)) for arc in arcs)
            tokens = tuple(number for number in firsts if number is not None)
            enough = len(arcs) if least is None else min(least, len(arcs))
            return tokens, len(tokens) >= enough


def _from_node(
    decision: ProcessDecision, node: Node, token: ArcToken, name: str
) -> tuple[tuple[int, ...], bool]:
    """The token itself if it comes from the named node, else the first that does; and whether there
    is one.
    """
    if _starts_at(decision.definition.arcs[token.arc], name):
        return (token.id,), True
    firsts = (decision.state.first_in(place(arc.index)) for arc in node.ins if _starts_at(arc, name))
    first = min((number for number in firsts if number is not None), default=None)
    return ((first,), True) if first is not None else ((), False)


def _starts_at(arc: Arc, name: str) -> bool:
    return name in (arc.start.name, arc.start.id)


def _of_set(decision: ProcessDecision, node: Node, name: str) -> tuple[tuple[int, ...], bool]:
    """The active tokens of the first set with a name at the node, and whether all of them are there."""
    state = decision.state
    lines = (state.standing_in(place(arc.index)) for arc in node.ins)
    sets = (number for one in merge(*lines) for number in state.arcs[one].sets)
    chosen = next((number for number in sets if state.sets[number].name == name), None)
    if chosen is None:
        return (), False
    token_set = state.sets[chosen]
    return (tuple(token_set.arcs), True) if token_set.all_at(node.id) else ((), False)


# --- joins of the user ----------------------------------------------------------------------------------


def _by_class(decision: ProcessDecision, node: Node, token: ArcToken) -> Joined | None:
    """Ask the user's join class, which receives all tokens that wait at the node."""
    state, target = decision.state, merge_target(decision.state, node)
    waiting = sorted(number for arc in node.ins for number in state.standing_in(place(arc.index)))
    payload: dict[str, Plain] = {
        "node": node.name,
        "arc_token": token.id,
        "waiting": [arc_token_told(decision.definition, state.arcs[number]) for number in waiting],
        "target": target,
    }
    answer = decision.ask_code(f"join:{node.join_text}", payload, token.parent, node)
    if answer is None:
        return None
    said: dict[str, Any] = answer if isinstance(answer, dict) else {}
    named = said.get("merge" if "merge" in said else "join")
    tokens = tuple(dict.fromkeys(named)) if isinstance(named, list) else ()
    into = said.get("into", target) if "merge" in said else None
    if (
        not tokens
        or not set(waiting).issuperset(tokens)
        or ("merge" in said and not _may_merge(state, node, into))
    ):
        message = f"join {node.join_text}: expected tokens that wait at {node.id}, to join or merge, got: "
        raise NodeFault("bad-answer", f"{message}{answer!r}", node)
    return Joined(tokens, into=into)


def _may_merge(state: ProcessState, node: Node, into: Any) -> bool:
    existing = state.nodes.get(into) if isinstance(into, int) else None
    return existing is not None and existing.node == node.id and not existing.backtracked


_JOINS: dict[str, Callable[[ProcessDecision, Node, ArcToken], Joined | None]] = {
    "first": _first,
    "and": _and,
    "labelAnd": _label_and,
    "tokenSet": _token_set,
    "tokenSetOr": _token_set,
    "joinlang": _by_requirements,
    "class": _by_class,
}
