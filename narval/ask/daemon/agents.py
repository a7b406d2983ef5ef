"""Operations on the agents of a home: their list, their states (G20), what they send (G23)."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import lru_cache, partial
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

import msgspec

from narval.agent.run_table import MOST_FAILURES
from narval.ask import json_forms
from narval.ask.home_state import why_elsewhere
from narval.ask.paging import check_limit
from narval.ask.registry import operation
from narval.core.agent_name import stands_for_peer
from narval.core.definitions.suggestions import nearest
from narval.core.engines.registry import asking_kinds
from narval.core.errors import RequestError, StoreError
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.agents.agent_rows import resident
from narval.daemon.agents.follow_home import is_held
from narval.daemon.agents.lifecycle import ELSEWHERE
from narval.daemon.daemon import Daemon
from narval.daemon.dropped.drop_folder import standing
from narval.files.agents.collections import AGENTS
from narval.files.agents.folders import collections_text, make_folder
from narval.files.agents.settings import AGENT_FILE, LIMITS, SETTINGS, AgentSettings, parse_stored_settings
from narval.store.backups.backup import back_up
from narval.store.batch import ACTIVE, SUSPENDED, AgentRow

if TYPE_CHECKING:
    from pathlib import Path

    from narval.files.home import Home
    from narval.store.postgresql.leases import DaemonRow, Ownership

A_DAY = 86_400.0

WAITS = "waits"
"""The state of an agent bound to a home in which no daemon runs."""


@operation("read")
async def agents(
    daemon: Daemon, limit: int | None = None, after: str | None = None, text: str | None = None
) -> list[dict[str, Any]]:
    """The agents, the home's own first, then by name (`a2` before `a10`): their states and what they hold;
    for those in memory also active calls, failures within a day, open work, faults, and memory use (M58).

    `limit` and `after` (a name) select a page, on which passive agents cost only their rows: what they hold
    is null. `text` keeps those whose names contain it, in any case.
    """
    check_limit(limit)
    rows, own_name = daemon.agents.rows, daemon.files.settings.name
    own = {"name": own_name, "state": ACTIVE, "why": None, "next": None}
    words = (text or "").casefold()
    is_first = after is None and words in own_name.casefold()
    first = [{**own, **_held(daemon, daemon.agents.own)}] if is_first else []

    start = None if after in (None, own_name) else _place(str(after))

    def follows(name: str) -> bool:
        return words in name.casefold() and (start is None or _place(name) > start)

    if daemon.store.is_shared:
        return await _of_all_daemons(daemon, first, limit, follows)

    if limit is not None:
        names = nsmallest(limit - len(first), filter(follows, rows.names()), key=_place)
        return [*first, *(_form(daemon, rows[name]) for name in names)]
    elements, active = Counter[int](), Counter[int]()
    for agent, number, runs in await daemon.agents.held_by_passive() if len(rows) else ():
        elements[agent] += number
        active[agent] += runs
    there = sorted((row for row in rows.all() if follows(row.name)), key=lambda row: _place(row.name))
    return [*first, *(_form(daemon, row, (elements[row.agent], active[row.agent])) for row in there)]


async def _of_all_daemons(
    daemon: Daemon, first: list[dict[str, Any]], limit: int | None, follows: Callable[[str], bool]
) -> list[dict[str, Any]]:
    """The agents of a shared store, each with the home of its daemon and its epoch; those of other daemons as
    the store describes them.
    """
    store, own = daemon.store, daemon.agents.own.agent.store.agent

    def read() -> tuple[list[AgentRow], dict[int, Ownership], list[tuple[int, int, int]]]:
        owners = {of.agent: of for of in store.owners()}
        return list(store.agents()), owners, store.held() if limit is None else []

    rows, owners, held = await asyncio.to_thread(read)
    elements, active = Counter[int](), Counter[int]()
    for agent, number, runs in held:
        elements[agent] += number
        active[agent] += runs
    agents = (row for row in rows if row.agent != own and not stands_for_peer(row.name))
    names = sorted((row.name for row in agents if follows(row.name)), key=_place)
    row_of, there = {row.name: row for row in rows}, daemon.agents.rows
    forms = [_owned(form, owners.get(own)) for form in first]
    for name in names if limit is None else names[: limit - len(first)]:
        row = there.get(name) or row_of[name]
        counts = (elements[row.agent], active[row.agent]) if limit is None else (None, None)
        form, owner = _form(daemon, row, counts), owners.get(row.agent)
        if row.state != SUSPENDED and (store.leases is None or name not in there):
            form["state"] = ELSEWHERE if owner is not None and owner.home else row.state
        forms.append(_owned(form, owner))
    return forms


@lru_cache(maxsize=1 << 17)
def _place(name: str) -> tuple[str, str]:
    """The place of a name in a list: numbers in it count as numbers."""
    return re.sub(r"\d+", lambda number: number[0].zfill(20), name), name


def _owned(form: dict[str, Any], owner: Ownership | None) -> dict[str, Any]:
    """The form of an agent with its daemon's home and its epoch; `waits` if its home has no daemon."""
    if owner is None:
        return {**form, "owner": None, "epoch": None}
    form = {**form, "owner": owner.home or None, "epoch": owner.epoch}
    if owner.home or not owner.pinned or form["state"] == SUSPENDED:
        return form
    return {**form, "state": WAITS, "why": f"no daemon is at work at its home {owner.pinned}"}


@operation("read")
async def show_agent(daemon: Daemon, name: str) -> dict[str, Any]:
    """An agent: its state, its folder, the settings that apply to it, its use of each limit (G16), and the
    faults of its files; `text` is that of its settings if they are in the store and not in a folder.

    A limit of calls is null if it is all places but one.
    """
    if name == daemon.files.settings.name:
        return _settings_form(daemon, daemon.agents.own)
    if stands_for_peer(name):
        daemon.agents.rows.find(name)  # its error lists the agents
    before = daemon.agents.rows.get(name)
    state = daemon.agents.state_of(before) if before is not None else None  # asking activates it
    async with daemon.agents.asked(name, reads=True) as host:
        answer = _settings_form(daemon, host)
    return answer if state is None else {**answer, "state": state}


def _settings_form(daemon: Daemon, host: AgentHost) -> dict[str, Any]:
    own, row = host.agent.store.is_own, host.agent.store.identity()
    name = daemon.files.settings.name if own else row.name
    folder = f"{AGENTS}/{name}" if name in daemon.files.snapshot.agents else None
    place = daemon.home.path / (folder or "") if daemon.home is not None and (folder or own) else None
    text, settings = None, daemon.files.settings_of(name)
    is_roaming = daemon.agents.supervisor.roaming is not None or daemon.store.is_shared
    if is_roaming and not (own or folder):
        text = host.agent.facts.get(SETTINGS, "")
        settings = daemon.files.settings.usual.with_given(parse_stored_settings(text)[0] or {})
    return {
        "name": name,
        "state": ACTIVE if own else daemon.agents.state_of(row),
        "why": row.why or why_elsewhere(host),
        "id": row.id,
        "folder": folder,
        "settings": _said(settings),
        "text": text,
        "inbox": standing(place)._asdict() if place is not None else None,
        "faults": [json_forms.fault(fault) for fault in daemon.files.of(host).faults],
        "limits": _limits(daemon, host),
    }


@operation("write")
async def add_agent(daemon: Daemon, name: str, collections: list[str] | None = None) -> dict[str, Any]:
    """Make an agent, with a memory of its own.

    It follows the definitions of the home's own agent; with `collections`, those named and its own, for which
    it gets a folder. In a shared store these are published ones, and it gets settings instead.
    """
    if not collections:
        return _form(daemon, await daemon.agents.add(name))
    if name in daemon.agents.rows or name == daemon.files.settings.name:
        raise RequestError(f"there is an agent {name} already")
    if (roaming := daemon.agents.supervisor.roaming) is not None:
        text = collections_text(collections)
        await roaming.check_new(name, text)
        await daemon.agents.add(name)
        await daemon.agents.give_settings(roaming, name, text)
        return _form(daemon, daemon.agents.rows.find(name))
    if daemon.home is None:
        raise RequestError("a home in memory has no collections")
    await asyncio.to_thread(make_folder, daemon.home.path, name, collections_text(collections))
    await daemon.reloader.reload()
    return _form(daemon, daemon.agents.rows.find(name))


@operation("write")
async def set_agent_settings(daemon: Daemon, name: str, text: str) -> dict[str, Any]:
    """Set the settings of an agent to a text in the form of `agent.toml`; for an agent without a folder,
    which any daemon of the store may run.
    """
    roaming, own = daemon.agents.supervisor.roaming, daemon.files.settings.name
    if name == own:
        raise RequestError(f"the settings of {name} are the table [agent] of etc/narval.toml")
    await daemon.agents.here(name)
    if roaming is None or name in daemon.files.snapshot.agents:
        raise RequestError(f"the settings of {name} are in its folder: {AGENTS}/{name}/{AGENT_FILE}")
    await roaming.check(text)
    await daemon.agents.give_settings(roaming, name, text)
    return await show_agent(daemon, name)


def _limits(daemon: Daemon, host: AgentHost) -> list[dict[str, Any]]:
    """The limits of an agent, and its use of each."""
    agent, settings = host.agent, host.settings
    used = {
        "elements": len(agent.memory.elements),
        "bytes": agent.memory.elements.bytes,
        "element_bytes": None,
        "runs": len(agent.runs.active),
        "moments": len(agent.clockwork.timers),
        "calls": host.dispatcher.calls.slots.taken,
        "messages": host.mail.office.room.of(agent.store.agent),
        "definitions": len(agent.library),
    }
    return [{"what": what, "used": count, "limit": getattr(settings, what)} for what, count in used.items()]


@operation("write")
async def suspend(daemon: Daemon, name: str, reason: str = "") -> dict[str, Any]:
    """Suspend an agent until it is resumed: what it is asked is recorded and waits."""
    row = await daemon.agents.here(name)
    present_reason = row.why if row.state == SUSPENDED and not is_held(row) else ""
    return _form(daemon, await daemon.agents.suspend(name, reason or present_reason or "as asked"))


@operation("write")
async def resume(daemon: Daemon, name: str) -> dict[str, Any]:
    """Let a suspended agent continue where it was."""
    row = await daemon.agents.here(name)
    if is_held(row):
        raise RequestError(f"{name} continues by itself once that is corrected: {row.why}")
    return _form(daemon, await daemon.agents.resume(name))


@operation("write")
async def passivate(daemon: Daemon, name: str) -> dict[str, Any]:
    """Take an idle agent out of memory until it has something to do; this also happens automatically."""
    return _form(daemon, await daemon.agents.passivate(name))


@operation("write")
async def move_agent(daemon: Daemon, name: str, to: str, grace: float = 10.0) -> dict[str, Any]:
    """Move an agent to another daemon of the store, that of the home `to`, at the end of a turn.

    Its calls have `grace` seconds to end. Those still running are then killed, and made again there or
    interrupted, as after a crash. No new call begins here. Returns once the other daemon has the agent.
    """
    if grace < 0:
        raise RequestError(f"expected grace to be seconds, 0 or more, got {grace:g}")
    here = daemon.files.settings.name
    _check_may_move(daemon, name)
    fleet = daemon.fleet
    if daemon.store.leases is None:
        raise RequestError(f"{name} cannot move: this home shares its store with no other daemon")
    row = await daemon.agents.here(name)
    if fleet is None or daemon.record_only:
        raise RequestError("no daemon runs here; start one on the machine that is to run it")
    if (receiver := _daemon_of(to, fleet.members.daemons)) is None:  # it may have joined just now
        renew = partial(daemon.store.leases.renew, draining=fleet.members.takes_none)
        receiver = _daemon_of(to, (await asyncio.to_thread(renew)).daemons)
    if receiver is None:
        there = [one.home for one in fleet.members.daemons]
        meant = f" (did you mean {near!r}?)" if (near := nearest(to, there)) is not None else ""
        raise RequestError(f"no daemon of a home {to!r:.80} is at work{meant}; there are {', '.join(there)}")
    if to != here:
        if receiver.draining:
            raise RequestError(
                f"the daemon of {to} takes no agents: it gives all away, or its clock is wrong"
            )
        if not await fleet.members.departures.move(name, receiver.daemon, grace):
            raise RequestError(f"{name} was not moved: the daemon of {to} is gone, or {name} is elsewhere")
    return {"name": row.name, "from": here, "to": to}


def _daemon_of(home: str, daemons: Iterable[DaemonRow]) -> DaemonRow | None:
    return next((row for row in daemons if row.home == home), None)


def _check_may_move(daemon: Daemon, name: str) -> None:
    """Check that an agent is not bound to a home. Raises RequestError."""
    if name == daemon.files.settings.name:
        raise RequestError(f"{name} is the home's own agent, which stays with its home")
    if name in daemon.files.snapshot.agents:
        raise RequestError(f"{name} stays with this home as long as its folder {AGENTS}/{name} is here")


@operation("write")
async def remove_agent(daemon: Daemon, name: str, now: bool = False) -> dict[str, Any]:
    """Remove an agent with everything it has; one with runs under way only with `now`.

    A backup of it is written first: `backup` is that file, for `narval restore`; null for a store in memory.
    """
    if name in daemon.files.snapshot.agents:
        raise RequestError(f"{name} is there as long as its folder {AGENTS}/{name} is; move that away first")
    await daemon.agents.here(name)
    file, keep = None, None
    if daemon.home is not None and not daemon.store.is_volatile:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
        file = daemon.home.removed / f"{name}-{stamp}.db"
        keep = partial(asyncio.to_thread, _back_up, daemon, daemon.home, file, name)
    await daemon.agents.remove(name, now=now, keep=keep)
    return {"name": name, "removed": True, "backup": None if file is None else str(file)}


def _back_up(daemon: Daemon, home: Home, file: Path, name: str) -> None:
    """Write an agent to a file, as `narval backup` does. Raises StoreError."""
    try:
        file.parent.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreError(f"the backup of {name} cannot be written: {error}") from error
    saved, settings = daemon.store.keep(), daemon.files.settings
    where = settings.store or saved or home.store
    try:
        back_up(where, file, lambda: True, settings.name, (name,), lambda rows: None)
    finally:
        if saved is not None:
            saved.unlink(missing_ok=True)


def _form(
    daemon: Daemon, row: AgentRow, held: tuple[int | None, int | None] = (None, None)
) -> dict[str, Any]:
    """The form of an agent; `held` is the elements and runs in the store of one that is not in memory."""
    host = daemon.agents.supervisor.host(row.name)
    due = json_forms.moment(row.wake_at)
    form = {"name": row.name, "state": daemon.agents.state_of(row), "why": row.why or None, "next": due}
    if host is not None:
        return {**form, **_held(daemon, host)}
    calls = daemon.calls.count(row.agent)
    unknown = dict.fromkeys(("failed", "asked", "faults"))
    return {**form, "elements": held[0], "runs": held[1], "calls": calls, "resident": 0, **unknown}


def _said(settings: AgentSettings) -> dict[str, Any]:
    """The settings of an agent except its limits, as plain data."""
    said = msgspec.to_builtins(msgspec.structs.replace(settings, offers={}))
    said = {key: value for key, value in said.items() if key not in LIMITS}
    if said["receives"] is not None:
        said["receives"] = [
            {"from": rule["sender"], "elements": rule["elements"]} for rule in said["receives"]
        ]
    return {**said, "offers": {name: list(whom) for name, whom in settings.offers.items()}}


def _held(daemon: Daemon, host: AgentHost) -> dict[str, Any]:
    """The figures of an agent in memory: its elements, active runs, calls, bytes and next moment, the runs
    that failed within a day, open items of work, and faults of its files.
    """
    agent, since = host.agent, daemon.rounds.clock.now() - A_DAY
    due, failures = agent.clockwork.timers.next(), agent.runs.latest_failures(MOST_FAILURES)
    return {
        "elements": len(agent.memory),
        "runs": len(agent.runs.active),
        "calls": sum(len(run.calls) for run in agent.runs.active.values()),
        "resident": resident(agent),
        "failed": sum((run.ended or 0.0) > since for run in failures),
        "asked": sum(agent.runs.counts[kind, "active"] for kind in asking_kinds()),
        "faults": len(daemon.files.of(host).faults),
        **({"next": json_forms.moment(due)} if due is not None else {}),
    }
