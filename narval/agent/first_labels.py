"""Labels given without a change of memory: in homes older than labels, and to secrets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.agent.transaction import Transaction
from narval.core.definitions.action.definition import Action
from narval.core.elements.element import Origin
from narval.core.kinds import KINDS, KNOWING_INPUTS
from narval.core.memory.labels import ANY_MODEL, HOOK, UNKNOWN, endorsement

LABELLED = "labels"
"""The fact of the store that says that everything of an agent has its labels."""

SECRETS = "secrets"
"""The fact of the store with the secret patterns for which all of memory was searched."""

OF_HOOKS = "hook/"
"""The prefix of the origin's step for an element from a webhook; the webhook's name follows."""


def derive_labels(transaction: Transaction) -> None:
    """Give all elements and runs the labels that their recorded origins imply, and record that this is done:
    it happens once in the life of a store.

    The label is `unknown` for elements made by a run that is forgotten or whose definition is gone, or made
    from a forgotten element.
    """
    agent = transaction.agent
    transaction.batch.meta.append((LABELLED, "1"))
    memory = agent.memory
    labels = memory.labels
    for eid in sorted(memory):
        element = memory.element(eid)
        if element is None or eid in agent.runs or eid in memory.declared or element.origin is None:
            continue
        origin = element.origin
        if endorsement(origin):
            continue
        number = labels.number(came_with(agent, origin))
        number = labels.join(number, labels.of(origin.inputs))
        run = agent.runs.get(origin.run)
        if run is not None:
            of_run = labels.of((run.eid,))
            number = labels.join(number, labels.whether(of_run) if run.kind in KNOWING_INPUTS else of_run)
        if number:
            transaction.label(eid, number)
            for holder in list(memory.contexts.holders(eid)):
                transaction.label(holder, number)


def label_secrets(transaction: Transaction) -> None:
    """Label the elements that match the owner's secret patterns, once for each change of those patterns. All
    of memory is searched, including replaced and reserved elements, which runs may still hold.
    """
    memory, facts = transaction.agent.memory, transaction.agent.facts
    secrets = transaction.agent.lookup.secrets
    called = "\n".join(f"{name} {bound.text}" for name, bound in secrets)
    if facts.get(SECRETS, "") == called:
        return
    transaction.batch.meta.append((SECRETS, called))
    for name, bound in secrets:
        number = memory.labels.number((name,))
        for eid in list(memory.select(bound)):
            transaction.label(eid, number)
            for holder in list(memory.contexts.holders(eid)):
                transaction.label(holder, number)


def came_with(agent: AgentState, origin: Origin) -> Iterable[str]:
    """The labels that came in with an element, by its origin; `unknown` if the origin does not say."""
    if origin.agent or any(made_of not in agent.memory for made_of in origin.inputs):
        return (UNKNOWN,)
    if not origin.run:
        return (f"{HOOK}{origin.step.removeprefix(OF_HOOKS)}",) if origin.step.startswith(OF_HOOKS) else ()
    run = agent.runs.get(origin.run)
    if run is None:
        return (UNKNOWN,)
    return _answered(agent, run, origin) if origin.call else ()


def _answered(agent: AgentState, run: Run, origin: Origin) -> Iterable[str]:
    """The labels that a call of a run brought in, by the current definition."""
    kind = next((name for name, row in KINDS.items() if run.kind in row.runs), "")
    if kind and (label := KINDS[kind].gives) is not None:
        return (label,) if label else ()
    definition: Any = run.definition or agent.library.get(kind, run.name)
    step = getattr(definition, "steps", {}).get(origin.step)
    if step is None or not hasattr(step, "target"):
        return (UNKNOWN,)
    if step.kind != Action.kind:
        return ()
    action = agent.library.get(Action.kind, step.target)
    if not isinstance(action, Action):
        return (UNKNOWN,)
    return ((action.label,) if action.label else ()) + ((ANY_MODEL,) if action.model else ())
