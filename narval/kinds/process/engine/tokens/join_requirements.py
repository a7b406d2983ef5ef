"""The requirements of JoinLang, applied to the tokens that wait at a node (section 6)."""

from __future__ import annotations

from heapq import merge

import msgspec

from narval.kinds.process.engine.decision import ProcessDecision
from narval.kinds.process.engine.state import ArcToken, place
from narval.kinds.process.engine.tokens.rubric import true_of
from narval.kinds.process.language.definition import Arc, Node
from narval.kinds.process.language.statements import ArcsRequired, NodeRequired, Requirement, SetRequired


class Gathered(msgspec.Struct, frozen=True):
    """The tokens that one requirement gathers, whether they are enough, and whether it applies."""

    tokens: tuple[int, ...]
    satisfied: bool
    applies: bool


def by_requirements(
    decision: ProcessDecision, node: Node, token: ArcToken, first: bool
) -> tuple[tuple[int, ...], bool] | None:
    """The tokens that join, and whether they merge into the existing node token; None if none join. `first`
    is True if there is no token to merge into.
    """
    parent = decision.state.nodes[token.parent]
    for requirements in node.joinlang:
        gathered = []
        for requirement in requirements:
            applies = requirement.when is None or true_of(decision, node, parent, requirement.when, first)
            tokens, satisfied = _gather(decision, node, token, requirement)
            gathered.append(Gathered(tokens, satisfied, applies))
        outcome = _decide(gathered, token.id, first)
        if outcome is not None:
            return outcome
    return None


def _decide(gathered: list[Gathered], token: int, first: bool) -> tuple[tuple[int, ...], bool] | None:
    applicable = [part for part in gathered if part.applies]
    if any(token in part.tokens for part in applicable) and all(part.satisfied for part in applicable):
        return tuple(dict.fromkeys(one for part in gathered for one in part.tokens)), False
    if first:
        return None
    others = tuple(dict.fromkeys(one for part in gathered if not part.applies for one in part.tokens))
    return (others, True) if token in others else None


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
            found = (decision.state.first_in(place(arc.index)) for arc in arcs)
            tokens = tuple(number for number in found if number is not None)
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
    found = min((number for number in firsts if number is not None), default=None)
    return ((found,), True) if found is not None else ((), False)


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
