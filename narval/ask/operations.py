"""The table of all operations, and `invoke`, with which surfaces ask one by name.

An operation takes plain keyword arguments and returns plain data, in the forms that `docs/reference/cli.md`
shows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from narval.ask import json_forms
from narval.ask.asker import CHAT, Asker
from narval.ask.labels import as_program, giving
from narval.ask.lazy_table import LazyTable
from narval.ask.people import check_may
from narval.ask.registry import ASKER, Operation
from narval.core.agent_name import stands_for_peer
from narval.core.agreeing import Act
from narval.core.definitions.suggestions import closest
from narval.core.errors import NotFoundError, RequestError, StoreAwayError
from narval.core.kinds import KINDS
from narval.daemon.daemon import Daemon

_MODULES: Mapping[str, tuple[str, ...]] = {
    "daemon.status": ("status", "changed"),
    "daemon.metrics": ("metrics",),
    "daemon.requests": ("stop", "keep_store", "reload", "log"),
    "daemon.agents": (
        "agents", "add_agent", "suspend", "resume", "passivate", "remove_agent", "show_agent",
        "set_agent_settings", "move_agent",
    ),
    "daemon.new_agents": ("add_agents",),
    "daemon.links": ("exchange", "links", "note_link"),
    "daemon.letters": ("send", "letters", "message_counts", "resend", "drop_letter"),
    "attention.attention": ("attention", "health"),
    "attention.calendar": ("calendar",),
    "trials.trials": ("simulate", "simulate_migration", "scenarios", "explore", "explored", "trial"),
    "trials.past_jobs": ("try_on_past", "job", "jobs", "end_job"),
    "trials.drafting": ("draft", "go_on_drafting", "end_drafting"),
    "attention.incidents": ("incidents", "acknowledge", "retry_incident"),
    "people": ("people", "vouch"),
    "chat.chats": ("chats", "chat_state", "chat_link", "chat_linked"),
    "chat.inbox": ("chat_take", "chat_inbox", "chat_reply", "chat_element", "chat_asked"),
    "chat.outbox": ("chat_outgoing", "chat_begun", "chat_sent", "chat_unsent"),
    "clients.resources": ("client_resource",),
    "clients.calling": ("mcp_clients", "client_tools", "use_tool", "client_run", "cancel_call"),
    "clients.outside": (
        "callers", "call_offered", "offered_run", "ask_for_peer", "hooks", "take_hook", "note_refused",
    ),
    "memory.changing": ("add", "outdate", "withdraw", "withdrawal", "confirm", "undo"),
    "memory.trust": ("trust", "endorse", "rules", "reach"),
    "memory.listing": ("memory", "count", "elements", "facets"),
    "memory.element": ("element",),
    "memory.origins": ("origin", "uses"),
    "runs.acts": ("start", "cancel", "cancel_all", "retry", "wait", "signal"),
    "runs.listing": ("runs", "runs_about", "show", "xml"),
    "runs.history": ("history",),
    "runs.figures": ("figures",),
    "runs.drawing": ("drawn", "graph"),
    "runs.calls": ("timeline", "gantt", "part"),
    "runs.story": ("story", "replay"),
    "runs.retrying": ("retry_plan", "renew"),
    "runs.migrating": ("migrate", "migration_plan"),
    "reminders": ("remind", "reminders", "forget_reminder", "snooze"),
    "why": ("why",),
    "definitions.listing": ("definitions", "actions"),
    "definitions.definition": ("definition", "tell"),
    "definitions.versions": ("versions", "difference"),
    "definitions.checking": ("check",),
    "definitions.proposing": (
        "propose", "proposals", "proposal", "drawn_proposal", "drop_proposal",
    ),
    "definitions.accepting": ("accept", "unaccept"),
    "definitions.editing": (
        "edit", "check_edit", "save_edit", "take_back_edit", "examples", "example", "take_example",
    ),
    "definitions.grants": ("grants", "grant", "revoke"),
}  # fmt: skip
OPERATIONS_OF: Mapping[Act, tuple[str, ...]] = {
    "grant": (
        "grant", "revoke", "accept", "unaccept", "save_edit", "take_back_edit", "take_example",
        "set_agent_settings",
    ),
    "endorse": ("endorse",),
    "agree": ("confirm",),
    "serve": ("client_tools", "use_tool", "client_run", "client_resource", "cancel_call"),
    "speak": (
        "ask_for_peer", "exchange", "note_link", "take_hook", "note_refused", "call_offered", "offered_run",
        "chat_state", "chat_take", "chat_inbox", "chat_reply", "chat_element", "chat_outgoing", "chat_begun",
        "chat_sent", "chat_unsent", "chat_link", "chat_linked", "chat_asked",
    ),
    "vouch": ("vouch",),
}  # fmt: skip
"""The operations that agree to something, or speak in a person's name."""

_ACT_OF: Mapping[str, Act] = {name: act for act, names in OPERATIONS_OF.items() for name in names}

_OF_WORK = frozenset({"worklist", "work_item", "work_log", "reminders"})
"""The operations that only read, and that show a person their own; anyone may ask them by chat."""

AT_ONCE = frozenset({"status", "metrics", "attention", "health", "log", "stop"})
"""The operations that do not wait until everything is recorded, since the store may be away."""

LOOKS = 0.25
"""Seconds between two checks whether the store is away, while something is being recorded."""

_MODULE_OF = {name: f"narval.ask.{module}" for module, names in _MODULES.items() for name in names} | {
    name: f"{kind.folder}.{module}"
    for kind in KINDS.values()
    for module, names in kind.operations.items()
    for name in names
}


def _operation(name: str) -> Operation[..., Any]:
    operation = getattr(import_module(_MODULE_OF[name]), name)
    assert isinstance(operation, Operation), name
    return operation


OPERATIONS: Mapping[str, Operation[..., Any]] = LazyTable(_MODULE_OF, _operation)
"""The operations by name; the module of each is imported on first use."""


async def invoke(daemon: Daemon, asker: Asker, name: str, arguments: Mapping[str, Any]) -> Any:
    """The answer to an operation.

    Raises RequestError for an unknown name, a missing scope or agent, and invalid arguments. All earlier
    changes are recorded first, so that no answer shows what a crash could undo. An answer about another agent
    than the home's own names it, as `agent`.
    """
    operation = OPERATIONS.get(name)
    if operation is None:
        there = f"; there are {', '.join(sorted(OPERATIONS))}"
        raise NotFoundError(f"there is no operation {name!r}{closest(name, OPERATIONS) or there}")
    if asker.call:
        asker = as_program(daemon, asker)
    if name in _ACT_OF:
        check_may(daemon, asker, _ACT_OF[name])
    if operation.scope == "people" or (asker.way == CHAT and name not in _OF_WORK):
        check_may(daemon, asker, operation.scope)
    if operation.scope not in asker.scopes:
        has = " and ".join(sorted(asker.scopes)) or "none"
        raise RequestError(
            f"{name} needs the scope {operation.scope}, and this connection is limited to {has}"
        )
    operation.check(arguments)
    if daemon.store.is_shared:
        await _recorded(daemon, operation)
    else:
        await daemon.rounds.recorded()
    if asker.way == CHAT and asker.once:
        from narval.ask.chat.chats import once

        async with once(daemon, asker, name):
            return await _answered(daemon, asker, operation, arguments)
    return await _answered(daemon, asker, operation, arguments)


async def _answered(
    daemon: Daemon, asker: Asker, operation: Operation[..., Any], arguments: Mapping[str, Any]
) -> Any:
    """The answer to an operation, from the addressed agent."""
    extra = {ASKER: asker} if operation.wants_asker else {}
    if asker.agent in ("", daemon.name):
        with giving(asker):
            return await operation(daemon, **arguments, **extra)
    if stands_for_peer(asker.agent):
        daemon.agents.rows.find(asker.agent)  # its error lists the agents
    async with daemon.of(asker.agent, reads=operation.scope == "read") as seen:
        with giving(asker):
            return _of_agent(await operation(seen, **arguments, **extra), seen.name)


async def _recorded(daemon: Daemon, asked: Operation[..., Any]) -> None:
    """Wait until what memory shows is recorded; a reading operation fails if the server is away.

    Raises StoreError, StoreAwayError.
    """
    if asked.name in AT_ONCE:
        return
    waiting = asyncio.ensure_future(daemon.rounds.recorded())
    try:
        while not waiting.done():
            await asyncio.wait([waiting], timeout=LOOKS)
            if asked.scope == "read" and not waiting.done() and daemon.store.away is not None:
                since, why = daemon.store.away
                what = f"what is in memory is not recorded since {json_forms.moment(since)}"
                raise StoreAwayError(f"{what}: {why}; `narval status` tells when it is again")
        await waiting
    finally:
        waiting.cancel()


def _of_agent(answer: Any, name: str) -> Any:
    """An answer with the agent's name in each of its objects."""
    if isinstance(answer, list):
        return [_of_agent(item, name) for item in answer]
    return {**answer, "agent": name} if isinstance(answer, dict) else answer
