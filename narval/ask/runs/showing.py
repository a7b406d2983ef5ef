"""The operations that return one run: its parts, its element."""

from __future__ import annotations

from typing import Any

from narval.agent.history import past
from narval.agent.relying import undoing_told
from narval.ask import json_forms
from narval.ask.lookup import definition_and_state, find_run, newer_code
from narval.ask.registry import operation
from narval.ask.withholding import Secrets, is_withheld, run_told
from narval.core.elements.element import Element
from narval.daemon.daemon import Daemon


@operation("read")
async def show(daemon: Daemon, run: int, at: int | None = None, secrets: Secrets = None) -> dict[str, Any]:
    """One run: its steps, transitions, context, errors; with `at`, as it was after that line of its history.

    With `secrets`, a run that holds any other secret is returned as by `runs`. For an active dataflow, also
    what its operators have taken and emitted so far, and what it printed.
    """
    found, agent = find_run(daemon, run), daemon.agent
    if secrets is not None and is_withheld(agent, run, secrets):
        return run_told(agent, json_forms.run(agent, found), secrets)
    if at is not None:
        return json_forms.past(agent, found, past(agent, found, at))
    definition, state = definition_and_state(daemon, found)
    context = tuple(agent.memory.contexts.of(run))
    form = json_forms.run_in_full(agent, found, definition, state, context, found.calls.values())
    if undoing := undoing_told(agent, found):
        form["undoing"] = undoing
    if code := newer_code(agent, found):
        form["newer_code"] = code
    return form


@operation("read")
async def xml(daemon: Daemon, run: int, at: int | None = None) -> dict[str, Any]:
    """One run as its element in memory, or as that was after line `at` of its history."""
    found = find_run(daemon, run)
    if at is not None:
        before = past(daemon.agent, found, at)
        rendered = found.engine.render(before.definition, before.state, before.context)
        return {"xml": Element(run, rendered).with_eid().decode("utf-8")}
    element = daemon.agent.memory.element(found.eid)
    return {"xml": element.with_eid().decode("utf-8") if element is not None else ""}
