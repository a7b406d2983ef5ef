"""The effects that the user's code requests for its token: plain data, applied in order (sections 8
and 10).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from narval.core.engines.events import Plain
from narval.kinds.process.engine.changes import EnvironmentSet
from narval.kinds.process.engine.decision import NodeFault, OperationRefused, ProcessDecision
from narval.kinds.process.engine.state import NodeToken
from narval.kinds.process.engine.tokens import backtracking, flow
from narval.kinds.process.language.attribute_types import to_text

Effect = Mapping[str, Any]


def apply_wishes(decision: ProcessDecision, token: NodeToken, value: Mapping[str, Plain]) -> None:
    """Apply the effects that the code of a node requests, in order. Raises NodeFault."""
    wishes: Any = value.get("effects") or ()
    try:
        for wish in wishes if isinstance(wishes, list | tuple) else [wishes]:
            _DO[wish["do"]](decision, token, wish)
    except OperationRefused as refusal:
        raise NodeFault(refusal.kind, refusal.message, decision.node(token)) from None
    except (KeyError, TypeError, AttributeError) as error:
        message = f"node {token.node}: what it wants done cannot be read: {error!r}"
        raise NodeFault("bad-answer", message, decision.node(token)) from None


def _set(decision: ProcessDecision, token: NodeToken, wish: Effect) -> None:
    of, values = wish["of"], {str(wish["name"]): wish["value"]}
    if of in ("token", "process"):
        write(decision, values, token=token.id if of == "token" else None)
        return
    for number, index in token.sets.items():
        if decision.state.sets[number].name == wish["set"]:
            write(decision, values, token_set=number, index=index if of == "member" else None)
            return
    raise OperationRefused("no-set-member", f"token {token.id} is in no token set named {wish['set']}")


def _complete(decision: ProcessDecision, token: NodeToken, wish: Effect) -> None:
    decision.leave_queue(wish.get("asynchronous"))
    flow.complete(decision, token, names_of(wish.get("arcs")))


def _complete_with_set(decision: ProcessDecision, token: NodeToken, wish: Effect) -> None:
    decision.leave_queue(wish.get("asynchronous"))
    with_set(decision, token, names_of(wish.get("arcs")), wish)


def _backtrack(decision: ProcessDecision, token: NodeToken, wish: Effect) -> None:
    found = decision.state.nodes.get(wish["token"])
    if found is None:
        raise OperationRefused("no-token", f"there is no node token {wish['token']} in this process")
    backtracking.backtrack(decision, found)


_DO: dict[str, Callable[[ProcessDecision, NodeToken, Effect], None]] = {
    "set": _set,
    "complete": _complete,
    "complete-with-new-token-set": _complete_with_set,
    "backtrack": _backtrack,
}


# --- shared with operations -----------------------------------------------------------------------------


def names_of(arcs: Any) -> tuple[str, ...]:
    """The names of arcs; only the default one if none are given. Raises OperationRefused."""
    if arcs is None:
        return ("",)
    if not isinstance(arcs, list | tuple):
        raise OperationRefused("bad-argument", f"expected a list of arcs, got: {arcs!r:.80}")
    return tuple("" if arc is None else str(arc) for arc in arcs)


def with_set(decision: ProcessDecision, token: NodeToken, names: tuple[str, ...], made: Effect) -> int | None:
    """Complete a token with a new token set (section 2); return the set, if any. Raises OperationRefused."""
    count = made.get("count")
    attributes, members = made.get("environment") or {}, made.get("members") or {}
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise OperationRefused("bad-argument", f"expected a number of members, got: {count!r:.80}")
    if not isinstance(attributes, dict) or not isinstance(members, dict):
        raise OperationRefused("bad-argument", "expected the attributes of a token set by name")
    lists = {name: value if isinstance(value, list) else [value] for name, value in members.items()}
    shared = {name: text for name, value in attributes.items() if (text := _text(value)) is not None}
    own: dict[int, dict[str, str]] = {}  # values beyond `count` are left out
    for name, values in lists.items():
        for index, value in enumerate(values[:count]):
            if (text := _text(value)) is not None:
                own.setdefault(index, {})[name] = text
    return flow.complete_with_set(decision, token, names, str(made.get("name") or ""), count, shared, own)


def write(
    decision: ProcessDecision,
    values: Mapping[str, Any],
    *,
    token: int | None = None,
    token_set: int | None = None,
    index: int | None = None,
) -> None:
    """Write attributes; None removes one. Raises OperationRefused."""
    if index is not None and token_set is not None and not 0 <= index < decision.state.sets[token_set].count:
        raise OperationRefused("no-set-member", f"token set {token_set} has no member {index}")
    if values:
        texts = {name: _text(value) for name, value in values.items()}
        decision.change(EnvironmentSet(texts, token, token_set, index))


def _text(value: Any) -> str | None:
    """A value as it is stored. Raises OperationRefused for one that has no text."""
    try:
        return to_text(value)
    except TypeError as error:
        raise OperationRefused("bad-argument", str(error)) from None
