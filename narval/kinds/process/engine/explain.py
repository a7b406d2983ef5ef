"""A process as people see it: its XML element (N2), its waits, its parts, and the reasons (N11)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from lxml import etree

from narval.core.elements.own_elements import xml_safe
from narval.core.engines.commands import Watch
from narval.core.engines.engine import Find, Lookup, Wait
from narval.core.engines.run_state import element_of, finished
from narval.core.engines.story import Fact, Story
from narval.kinds.process.engine.state import ArcToken, NodeToken, ProcessState
from narval.kinds.process.language.definition import Process

SHOWN = 200
"""The most tokens of each kind, the newest, in the element of a process; `parts` has all."""


def render(definition: Process, state: ProcessState, context: Iterable[int]) -> bytes:
    """The `process` element: its tokens with their states, its attributes, the context by reference."""
    root = element_of("process", definition, state, "parent_run")
    for name, value in state.environment.items():
        etree.SubElement(root, "attribute", name=xml_safe(name, "")).text = xml_safe(value, "")
    for token in list(islice(reversed(state.nodes.values()), SHOWN))[::-1]:
        node = etree.SubElement(root, "token", id=str(token.id), node=token.node, state=word_of(state, token))
        if token.execution_type != "Forward":
            node.set("execution-type", token.execution_type)
        for name, value in token.environment.items():
            etree.SubElement(node, "attribute", name=xml_safe(name, "")).text = xml_safe(value, "")
        for eid in token.produced:
            etree.SubElement(node, "element", eid=str(eid))
    for arc_token in (state.arcs[number] for number in list(state.active_arcs)[-SHOWN:]):
        start = state.nodes[arc_token.parent].node
        etree.SubElement(root, "arc-token", {"id": str(arc_token.id), "from": start, "to": arc_token.to})
    return finished(root, context)


def word_of(state: ProcessState, token: NodeToken) -> str:
    """The state of a token in a word: active, delayed, discarded, skipped, complete, cancelled, backtracked;
    held, if its guard gave no answer; failed, if its node failed.
    """
    if token.backtracked:
        return "backtracked"
    if token.cancelled:
        return "cancelled"
    if token.completed is None:
        accepted = "failed" if token.id in state.failed else "active"
        return {"DelayUntil": "delayed", "": "held"}.get(token.guard, accepted)
    return {"DiscardToken": "discarded", "SkipNode": "skipped"}.get(token.guard, "complete")


# --- waits ----------------------------------------------------------------------------------------------


def waiting_for(definition: Process, state: ProcessState, watches: dict[str, Watch]) -> Iterator[Wait]:
    """The things that the process waits for now: calls, moments, memory, people, other tokens."""
    for number in state.active_nodes:
        yield _wait(definition, state, state.nodes[number], watches)
    for call in state.hooks:
        token = state.nodes[state.calls[call]]
        yield Wait(token.node, "call", f"backtrack of token {token.id}", calls=(call,))
    for place, count in Counter(state.arcs[number].to for number in state.active_arcs).items():
        yield Wait(
            place, "join", f"{count} arc token{'s' * (count > 1)} there; {_incomplete(definition, place)}"
        )
    if state.paused:
        yield Wait("queue", "time", "its turn: many tokens are to be moved", until=None)
    elif state.status == "executing" and (state.queue.first is not None or not state.is_active):
        yield Wait("queue", "person", "to be told to execute what is in the queue")
    if state.status.startswith("pending"):
        yield Wait("process", "person", "its end to be finalized: a listener holds it up")


def _wait(definition: Process, state: ProcessState, token: NodeToken, watches: dict[str, Watch]) -> Wait:
    node = definition.nodes[token.node]
    if token.wake:
        what = (
            "its node to be run again" if token.guard == "AcceptToken" else "another evaluation of its guard"
        )
        return Wait(node.id, "time", f"{what} (token {token.id})", until=token.until)
    if token.call and token.next_try is None:
        return Wait(node.id, "call", f"{node.called} (token {token.id})", calls=(token.call,))
    if token.queued:
        return Wait(node.id, "call", f"other code of the process to be over (token {token.id})")
    if token.id in state.failed and token.guard:
        error = state.failed[token.id]
        return Wait(node.id, "person", f"token {token.id} failed (element {error})", error=error)
    watch = watches.get(token.watch)
    if watch is not None:
        text = f"an element for each condition (token {token.id})"
        return Wait(node.id, "condition", text, watch.conditions, watch.scopes)
    if token.held_back:
        text = f"a listener to let token {token.id} in (execute_token), or the token to be completed"
        return Wait(node.id, "person", text)
    again = " or another evaluation of its guard, which gave no answer" if not token.guard else ""
    text, error = f"token {token.id} to be completed{again}", state.failed.get(token.id, 0)
    return Wait(node.id, "person", text, error=error)


def remedy(state: ProcessState, error: int, option: str) -> str:
    """The commands, with an option, that remedy a failed token, found by its error element; "" if there is
    none.
    """
    for token, eid in state.failed.items() if state.status == "executing" else ():
        if eid == error:
            which = f"{state.eid} --token {token}{option}"
            return f"`narval rerun {which}` runs its node again, `narval complete {which}` goes on without it"
    return ""


def _incomplete(definition: Process, place: str) -> str:
    node = definition.nodes[place]
    text = " ".join(node.join_text.split())
    return f"join {node.join}{f' {text}' * bool(text)} is not complete"


# --- parts ----------------------------------------------------------------------------------------------


def parts(definition: Process, state: ProcessState) -> dict[str, list[dict[str, Any]]]:
    """Nodes, tokens of both kinds, and token sets, as surfaces show them."""
    return {
        "nodes": [
            {
                "id": node.id,
                "state": state_of(state, node.id),
                "type": node.type,
                "calls": _calls_of(state, node.id),
            }
            for node in definition.nodes.values()
        ],
        "tokens": [node_row(definition, state, token) for token in state.nodes.values()],
        "arc_tokens": [arc_row(definition, state, token) for token in state.arcs.values()],
        "token_sets": [
            {
                "id": token_set.id,
                "name": token_set.name,
                "count": token_set.count,
                "level": token_set.level,
                "active": len(token_set.nodes) + len(token_set.arcs),
                "environment": dict(token_set.environment),
                "members": {str(index): dict(own) for index, own in token_set.members.items()},
            }
            for token_set in state.sets.values()
        ],
        "environment": [{"id": name, "value": value} for name, value in state.environment.items()],
    }


def state_of(state: ProcessState, node: str) -> str:
    """The state of a node in a word: that of its tokens, active ones first."""
    standing = state.standing.get(node)
    if standing:
        return word_of(state, state.nodes[next(iter(standing))])
    newest = state.newest.get(node)
    return word_of(state, state.nodes[newest]) if newest is not None else "todo"


def _calls_of(state: ProcessState, node: str) -> list[str]:
    tokens = (state.nodes[number] for number in state.standing.get(node, ()))
    return [token.call for token in tokens if token.call and token.next_try is None]


def node_row(definition: Process, state: ProcessState, token: NodeToken) -> dict[str, Any]:
    """A token on a node, as surfaces show it."""
    node = definition.nodes[token.node]
    return {
        "id": token.id,
        "node": node.name,
        "node_id": node.id,
        "external": node.external[0] if node.external else None,
        "external_path": list(node.external),
        "state": word_of(state, token),
        "complete": token.completed is not None,
        "guard_action": token.guard or None,
        "execution_type": token.execution_type,
        "sets": sets_of(state, token),
        "parents": list(token.parents),
        "children": list(token.children),
        "environment": dict(token.environment),
        "produced": list(token.produced),
        "delays": token.delays,
        "until": token.until,
        "error": state.failed.get(token.id),
    }


def arc_row(definition: Process, state: ProcessState, token: ArcToken) -> dict[str, Any]:
    """A token on an arc, as surfaces show it."""
    arc = definition.arcs[token.arc]
    return {
        "id": token.id,
        "arc": arc.name or None,
        "index": token.arc,
        "from": arc.start.id,
        "to": arc.end.id,
        "parent": token.parent,
        "child": token.child,
        "pending": token.pending,
        "complete": token.complete,
        "execution_type": token.execution_type,
        "sets": sets_of(state, token),
    }


def sets_of(state: ProcessState, token: NodeToken | ArcToken) -> list[str]:
    """The sets that a token is a member of, with its index in each."""
    return [f"{state.sets[number].name}[{index}]" for number, index in token.sets.items()]


# --- why ------------------------------------------------------------------------------------------------


def explain(definition: Process, state: ProcessState, identifier: str | None) -> str | None:
    """Explain the state of a node, or without an id that of the process; None if there is nothing to say."""
    if identifier is None:
        failed = f"narval could not continue: element {state.error}"
        why = {"completed": "no token was active any more", "cancelled": "it was cancelled",
               "created": "it begins when a daemon is running (narval run)", "failed": failed}  # fmt: skip
        return why.get(state.status)
    node = definition.nodes.get(identifier)
    if node is None:
        return None
    standing = [state.nodes[number] for number in state.standing.get(node.id, ())]
    waiting = [state.arcs[number] for number in state.active_arcs if state.arcs[number].to == node.id]
    reasons = [_reason_of_token(definition, state, token) for token in standing]
    if waiting:
        came = ", ".join(sorted({state.nodes[token.parent].node for token in waiting}))
        reasons.append(
            f"{len(waiting)} arc tokens wait there, from {came}; {_incomplete(definition, node.id)}"
        )
    if not reasons:
        newest = state.newest.get(node.id)
        reasons = [_reason_of_token(definition, state, state.nodes[newest])] if newest is not None else []
    if not reasons:
        led = ", ".join(dict.fromkeys(arc.start.id for arc in node.ins)) or "no arc"
        reasons = [f"no token has come to it yet; {led} lead{'s' * (led.count(',') == 0)} to it"]
    return f"node {node.id} is {state_of(state, node.id)}: {'; '.join(reasons)}"


def _reason_of_token(definition: Process, state: ProcessState, token: NodeToken) -> str:
    node = definition.nodes[token.node]
    if token.backtracked:
        return f"token {token.id} was gone back from ({token.execution_type})"
    if token.cancelled:
        by = state.nodes[token.cancelled]
        return f"token {token.id} was cancelled when token {by.id} left {by.node}"
    if token.guard == "DelayUntil" and token.completed is None:
        return f"token {token.id}: its guard said to ask again later, {token.delays} times so far"
    if token.completed is None and token.id in state.failed:
        return f"token {token.id} {word_of(state, token)}: element {state.failed[token.id]} says why"
    if token.completed is None:
        what = f"{node.type} has not come back" if token.call else "it is to be completed"
        what = "it will be tried again" if token.next_try is not None else what
        what = "a listener holds it back before its node" if token.held_back else what
        return f"token {token.id} is active: {what}"
    how = {"DiscardToken": "discarded by the guard", "SkipNode": "skipped by the guard"}
    return f"token {token.id} was {how.get(token.guard, 'completed')}"


def diagnose(
    definition: Process, state: ProcessState, identifier: str | None, element: Lookup, find: Find
) -> Iterator[Wait]:
    """The conditions of tokens on `wait` nodes, to be judged now."""
    for number in state.active_nodes:
        token = state.nodes[number]
        node = definition.nodes[token.node]
        if token.watch and identifier in (None, node.id):
            asked = [condition.condition for condition in node.conditions]
            bounds = tuple(condition.bind({}) for condition in asked if not condition.variables)
            yield Wait(node.id, "condition", "an element for each condition", bounds, (None,) * len(bounds))


part_word = "node"

story: Story = {
    "NodeTokenCreated": Fact("Token {token} comes to it.", part="node", begins=True),
    "NodeTokenDiscarded": Fact("Its guard ends token {token}.", part="token", word="node"),
    "NodeTokenSkipped": Fact("It is left out.", part="token", word="node"),
    "NodeTokenCompleted": Fact(
        "Token {token} is complete[, and leaves by {exits}].", part="token", word="node"
    ),
    "NodeTokenBacktracked": Fact("Token {token} is gone back from.", part="token", word="node"),
    "NodeTokenDelayed": Fact("Its guard is asked again at {until:moment}.", part="token", word="node"),
    "NodeTokenHeld": Fact("Its guard gave no answer: token {token} waits.", part="token", word="node"),
    "NodeTokenCancelled": Fact("Token {token} is cancelled by token {by}.", part="token", word="node"),
    "WayBackTaken": Fact("Token {token} goes back to token {to}.", part="token", word="node"),
    "EnvironmentSet": Fact("Attribute {values} is written."),
    "NodeTokenFailed": Fact("It failed: {error:element}.", part="token", word="node"),
    "NodeTokenRetried": Fact("It is tried again at {until:moment}.", part="token", word="node"),
    "WatchSet": Fact("[It waits for {watch:watch}.]", part="token", word="node"),
    "QuestionAsked": Fact("The code of {function} is asked.", part="token", word="node"),
    "UndoingQueued": Fact("What token {tokens} did is undone."),
    "UndoingEnded": Fact("All is undone that had to be."),
    "ProcessFailed": Fact("narval cannot continue it: {error:element}."),
}
"""The changes of interest to people, in sentences."""
