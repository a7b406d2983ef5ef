"""Labels that come without a change of memory: those of homes older than labels, of secrets, and of files.

The labels of a file that narval wrote are kept by its path among the results of the store, for when it is
read again. A file has the labels of everything that its call was given. A file that is written again, or
copied, keeps its earlier labels too: it may have been appended to. A call that failed or was given up may
still have written its file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from posixpath import join, normpath
from typing import Any

import msgspec

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.agent.transaction import Transaction
from narval.core.definitions.action.definition import Action
from narval.core.elements.element import Element, Origin
from narval.core.engines.commands import Call
from narval.core.engines.events import Produced, Returned
from narval.core.kinds import KINDS, KNOWING_INPUTS
from narval.core.memory.labels import ANY_MODEL, HOOK, NONE, UNKNOWN, endorsement
from narval.core.trust.needs import may_read, may_write
from narval.files.allowed_files import closed_part, resolved
from narval.store.batch import FILES, ResultRow

PATH, FROM, _PATH = "path", "from", b"path"
"""The attributes of a result that name its file, written or read, and the file it was copied from."""


def note_files(transaction: Transaction, run: Run, call: Call, event: Returned | Produced) -> None:
    """Record the labels of the files that a call of an action wrote, or may have written: those of its
    inputs.
    """
    agent = transaction.agent
    has_failed = type(event) is Returned and (event.problem is not None or event.abandoned)
    written = list(_paths(event))
    if not written and not has_failed:
        return
    labels = agent.memory.labels
    action = agent.lookup.definition(run, call.kind, call.name) if call.kind == Action.kind else None
    if not isinstance(action, Action) or not may_write(action):
        return
    eids = [eid for _, taken in call.inputs for eid in taken]
    if has_failed:
        meant = [path for eid in eids for path in paths_in(agent, eid)]
        written += [(path, *meant) for path in meant]
    if not written:
        return
    of_run = NONE if run.kind in KNOWING_INPUTS else labels.of((run.eid,))
    said, _ = labels.told(labels.join(labels.join(labels.of(eids), of_run), transaction.comes_with))
    for paths in written:
        number = labels.join(labels_at(agent, *paths), labels_of_paths(agent, paths[1:]))
        note_file(transaction, paths[0], labels.join(number, labels.number(said)))


def note_file(transaction: Transaction, path: str, number: int) -> None:
    """Record that a file has a set of labels, besides those that it has already."""
    agent = transaction.agent
    labels, key = agent.memory.labels, _keys(agent, path)[0]
    number = labels.join(labels_at(agent, path), number)
    if number != labels.files.get(key, NONE):
        labels.files[key] = number
        data = msgspec.json.encode(labels.names(number))
        transaction.batch.put_result(ResultRow(FILES, key, transaction.at, data))


def labels_of_files(agent: AgentState, run: Run, call: Call, event: Returned | Produced) -> int:
    """The labels of the files that a call has read: if narval wrote them, or keeps secrets there."""
    labels, joined = agent.memory.labels, NONE
    if not (labels.files or agent.lookup.secrets):
        return joined
    action = agent.lookup.definition(run, call.kind, call.name) if call.kind == Action.kind else None
    if not isinstance(action, Action) or may_read(action):
        for paths in _paths(event):
            joined = labels.join(joined, labels_of_paths(agent, paths))
    return joined


def labels_of_paths(agent: AgentState, paths: Sequence[str]) -> int:
    """The labels of files. A file in a part of the home that definitions do not write, such as
    `data/memory.xml`, may hold elements, so it has the labels of all the home's secrets.
    """
    labels, secrets = agent.memory.labels, agent.lookup.secrets
    number = labels_at(agent, *paths)
    if secrets and any(closed_part(path, Path(agent.real_folder)) for path in paths):
        number = labels.join(number, labels.number([name for name, _ in secrets]))
    return number


def labels_at(agent: AgentState, *paths: str) -> int:
    """The labels of the files at some paths of the home, if narval wrote them."""
    labels = agent.memory.labels
    if not labels.files:
        return NONE
    return labels.of_files(key for path in paths for key in _keys(agent, path))


def _keys(agent: AgentState, path: str) -> tuple[str, str, str]:
    """The path under which the labels of a file are kept, the same for each way to write it, and for a file
    of the home also after the home has moved; then those under which stores of 0.1.0 keep them.
    """
    home = Path(agent.real_folder)
    file = resolved(path, home)
    key = file.relative_to(home) if file.is_relative_to(home) else file
    return str(key), str(file), normpath(join(agent.folder, path))


def paths_in(agent: AgentState, eid: int) -> Iterator[str]:
    """The paths named by an input element of a call, at its root or within it."""
    element = agent.memory.element(eid)
    for node in element.tree().iter("*") if element is not None else ():
        if path := node.get(PATH):
            yield path


def _paths(event: Returned | Produced) -> Iterator[tuple[str, ...]]:
    """The paths that each element of a call's result names, its own file first."""
    for output in event.elements:
        attributes = Element(0, output.xml).attributes if _PATH in output.xml else {}
        if PATH in attributes:
            yield tuple(attributes[name] for name in (PATH, FROM) if attributes.get(name))


# --- old homes, and secrets -----------------------------------------------------------------------------

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
