"""The operation `attention`: everything that needs attention (M13). First what keeps the daemon from working,
then what waits for a person, then what went wrong.

Its cost is that of the changes since the last request. It lists the first of each sort, and the number of the
rest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from narval.agent.agent import AgentState
from narval.agent.effects import keeps_from_beginning
from narval.agent.incidents import IncidentRow
from narval.agent.pacing import slowed_text
from narval.agent.runs import NOT_GRANTED, cannot_start
from narval.ask import json_forms
from narval.ask.attention.incidents import OpenIncidents
from narval.ask.attention.lines import SHOWN, calls_that_wait, incident_lines, item
from narval.ask.home_state import store_away, withheld_in, withheld_of_others, without_effect
from narval.ask.lookup import command, files_of
from narval.ask.registry import Form, operation
from narval.ask.text import counted, fault_line, of_others, size
from narval.ask.turn_index import up_to_date
from narval.core.definitions.telling.sentence import listed
from narval.core.definitions.wall import in_zone
from narval.core.engines.registry import asking_kinds, runnable
from narval.core.kinds import ASKING
from narval.daemon.agents.agent_rows import NOTHING_OPEN
from narval.daemon.daemon import Daemon
from narval.daemon.grant_items import items_of_requests
from narval.files.agents.collections import AGENTS
from narval.store.batch import SUSPENDED
from narval.store.database import KEEP_IT

if TYPE_CHECKING:  # only a shared store has a fleet
    from narval.daemon.fleet.members import Members

A_DAY = 86_400.0

SLOW = 1.0
"""Seconds: a store that takes longer to answer a heartbeat is slow."""

DISK_LEFT, MOST_LEFT = 256 * 2**20, 2**30
"""Bytes: a disk is nearly full with less than `DISK_LEFT` or a hundredth of it free, whichever is more. On a
large disk `MOST_LEFT` suffices, on a small one a tenth of it.
"""


@operation("read")
async def attention(daemon: Daemon) -> list[dict[str, Any]]:
    """Everything that needs attention: what keeps the daemon from working, what waits for a person, and then
    what went wrong; each with a sentence, since when, and what it links to.

    `what` is one of `store fleet disk daemon loop file incident slowed grant login tool chat link overdue
    nobody outlived source missed person agent`, `grave` one of `high`, `middle` and `low`; `link` has one of
    `page`, `run`, `work`, `incident`, `element` and `agent`. Other agents are named if the home's own is
    asked.
    """
    rows = (await up_to_date(daemon, OpenIncidents)).rows
    overdue, waiting = _work(daemon)
    incidents = incident_lines(daemon.agent, rows)
    calls = [*_calls(daemon), *await calls_that_wait(daemon)]
    people = [*_withheld(daemon), *_servers(daemon), *map(dict, overdue), *map(dict, waiting)]
    troubles = [*_store(daemon), *_disk(daemon)]
    return [
        *troubles,
        *(_no_daemon(daemon) if troubles else ()),
        *people,
        *_loop(daemon),
        *_files(daemon, rows),
        *_untaken(daemon),
        *incidents,
        *_slowed(daemon.agent),
        *_kept(daemon),
        *_chats(daemon),
        *_links(daemon),
        *_suspended(daemon),
        *calls,
        *_missed(daemon),
        *_others(daemon),
    ]


@operation("read")
async def health(daemon: Daemon) -> dict[str, Any]:
    """Report whether the daemon can work, and the troubles that prevent it: the store is away, the disk is
    full, no daemon runs. Failed runs and faulty files are not among them: see `attention`.

    A daemon whose loop is stuck does not answer, so callers need a short timeout.
    """
    held = [one for one in (*_store(daemon), *_disk(daemon)) if one["grave"] == "high"]
    none = list(_no_daemon(daemon))
    is_standby = daemon.record_only and not none
    return {"well": not (held or none), "standby": is_standby, "troubles": [*held, *none]}


def _no_daemon(daemon: Daemon) -> Iterator[Form]:
    """The lack of a daemon, which may have ended because of a trouble and does not start when the trouble
    ends. A standby lacks none.
    """
    home = daemon.home
    holder = home.known_holder() if home is not None and daemon.record_only else None
    if daemon.record_only and not (holder is not None and holder.is_standby):
        start = home.run_command if home is not None else "narval run"
        yield item("daemon", "high", f"no daemon is running: {start}", {"page": "status"})


def _work(daemon: Daemon) -> tuple[Sequence[Form], Sequence[Form]]:
    """The work of people that has a problem, and the work that waits for them."""
    if not any(daemon.agent.runs.counts[kind, "active"] for kind in asking_kinds()):
        return [], []
    from narval.kinds.work.operations.attention import open_work  # here: most homes ask no one

    return open_work(daemon)


def _store(daemon: Daemon) -> Iterator[Form]:
    """A store whose file is gone, or that is away or slow; lost leases and lost homes; clocks and files that
    differ between the daemons that share it.
    """
    if loss := daemon.store.loss():
        yield item("store", "high", f"{loss}; {KEEP_IT}", {"page": "status"})
    if daemon.store.leases is None:
        return
    link = {"page": "status"}
    if (away := store_away(daemon)) is not None:
        yield item("store", "high", f"nothing is recorded: {away[1]}", link, away[0])
    if (latest := daemon.store.leases.latest) is None:
        return
    for name, why in sorted(daemon.agents.elsewhere.items())[:SHOWN]:
        yield item("agent", "middle", f"{AGENTS}/{name} has no effect: {why}", {"page": "status"})
    if daemon.fleet is not None:
        yield from _membership(daemon.fleet.members, daemon.rounds.clock.now(), link)
    for home in latest.lost[:SHOWN]:
        text = f"the daemon of home {home} is gone, and the agents of that home wait: start it there"
        yield item("fleet", "middle", f"{text} (narval run)", link)
    own = next((row for row in latest.daemons if row.daemon == daemon.store.leases.daemon), None)
    other = [row.home for row in latest.daemons if own is not None and row.digest != own.digest]
    if other:
        text = f"etc/people.toml or etc/narval.toml says something else at home {', '.join(other[:SHOWN])}"
        yield item("fleet", "middle", f"{text}; agents may move there: have them say the same", link)


def _membership(members: Members, now: float, link: Form) -> Iterator[Form]:
    """The problems of this daemon among those that share the store."""
    if warning := members.clocks.warning:
        yield item("fleet", "middle", f"{warning}; synchronise it (NTP)", link)
    if members.answered_in > SLOW:
        text = f"the store is slow: it answered the last heartbeat after {members.answered_in:.1f} s"
        yield item("store", "middle", f"{text}; look at its server and at the network", link)
    if lost := [at for at in members.lost if at > now - A_DAY]:
        times = f"this daemon lost {counted(len(lost), 'lease')} within a day, and others took its agents"
        text = f"{times}: it was stopped, hung, or cut off from the store"
        yield item("fleet", "middle", text, link, lost[-1])


def _disk(daemon: Daemon) -> Iterator[Form]:
    """The disk that the store lies on, if it is nearly full."""
    if daemon.home is None or daemon.files.settings.store:
        return
    disk = os.statvfs(daemon.home.path)
    left, whole = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
    if left < min(max(DISK_LEFT, whole / 100), MOST_LEFT, whole / 10):
        text = f"the disk of the home is nearly full: {size(left)} of {size(whole)} are left; make room there"
        yield item("disk", "high", f"{text}, or nothing can be recorded", {"page": "status"})


def _loop(daemon: Daemon) -> Iterator[Form]:
    """A round that took too long within the last day."""
    slow = daemon.main_loop.numbers.slow
    if slow is not None and slow[0] > daemon.rounds.clock.now() - A_DAY:
        text = f"the daemon was stuck for {slow[1]:.0f} s in a round of turns"
        why = "a function in the daemon, or the store, took that long: its log tells of what"
        yield item("loop", "middle", f"{text}; {why}", {"page": "log"}, slow[0] - slow[1])


def _files(daemon: Daemon, rows: dict[str, IncidentRow]) -> Iterator[Form]:
    """The faults of files."""
    others = without_effect(daemon) if daemon.agent.store.is_own else []
    faults = [json_forms.fault(fault) for fault in sorted([*files_of(daemon).faults, *others])]
    since = {row.newest.definition: min(row.of.values())[0] for row in rows.values()} if faults else {}
    link = {"page": "definitions"}
    for fault in faults[:SHOWN]:
        yield item("file", "high", fault_line(fault), link, since.get(fault["path"]))
    if len(faults) > SHOWN:
        more = counted(len(faults) - SHOWN, "more fault")
        yield item("file", "high", f"{more} of files: `narval check` tells them", link)


def _untaken(daemon: Daemon) -> Iterator[Form]:
    """The dropped files that cannot be taken; of another agent than the home's own, those in its folder."""
    within = "" if daemon.agent.store.is_own else f"{AGENTS}/{daemon.name}/"
    untaken = daemon.watcher.untaken if daemon.watcher is not None else ()
    reasons = [reason for reason in untaken if reason.startswith(within)]
    for reason in reasons[:SHOWN]:
        yield item("file", "high", reason, {"page": "status"})
    if len(reasons) > SHOWN:
        more = counted(len(reasons) - SHOWN, "more file")
        yield item("file", "high", f"{more} that cannot be taken: the log names them", {"page": "log"})


def _slowed(agent: AgentState) -> Iterator[Form]:
    """The definitions that are slowed down because they start themselves without end."""
    clockwork = agent.clockwork
    slowed = {
        job.name: (id, job)
        for id, job in clockwork.starts.items()
        if job.slowed and id not in clockwork.held  # a held one is reported elsewhere
    }
    for id, job in islice(slowed.values(), SHOWN):
        at = in_zone(clockwork.timers.due((0, id)) or 0.0, clockwork.zone)
        yield item("slowed", "high", f"{slowed_text(job)}; the next begins at {at}", {"page": "definitions"})
    if len(slowed) > SHOWN:
        more = counted(len(slowed) - SHOWN, "more definition")
        yield item("slowed", "high", f"{more} begin later and later", {"page": "definitions"})


def _kept(daemon: Daemon) -> Iterator[Form]:
    """The definitions that wait to start again, and are not loaded or cannot start. Those that a grant or a
    limit holds back are reported elsewhere.
    """
    agent, reasons = daemon.agent, dict[str, str]()
    for job in agent.clockwork.held.values():
        definition = runnable(agent.library, job.name)
        refused = cannot_start(agent, definition) if definition is not None else ("", "")
        if refused is not None and refused[0] != NOT_GRANTED:
            reasons[job.name] = keeps_from_beginning(agent, job)
    for name, why in islice(reasons.items(), SHOWN):
        no_more = command(daemon, f"cancel --name {name}")
        text = f"{name} waits to start again: {why}; to stop that: {no_more}"
        yield item("file", "high", text, {"page": "definitions"})
    if len(reasons) > SHOWN:
        more = counted(len(reasons) - SHOWN, "more definition")
        yield item("file", "high", f"{more} start again as soon as they are loaded", {"page": "definitions"})


def _withheld(daemon: Daemon) -> Iterator[Form]:
    """The definitions that may not start until their needs are granted."""
    withheld, agent = withheld_in(daemon), daemon.agent
    requests = ((agent.memory.element(eid), item) for eid, item in items_of_requests(agent).items())
    items = {request.attributes["name"]: item for request, item in requests if request is not None}
    for definition in withheld[:SHOWN]:
        refused = cannot_start(agent, definition)
        why = refused[1] if refused is not None else ""
        work = items.get(definition.full_name)
        link: Form = {ASKING: work} if work is not None else {"page": "definitions"}
        asks = f" (work {work} asks so)" if work is not None else ""
        yield item("grant", "middle", f"{why}{asks}", link)
    if len(withheld) > SHOWN:
        more = counted(len(withheld) - SHOWN, "more definition")
        yield item(
            "grant", "middle", f"{more} wait for a grant: `narval grants` lists them", {"page": "definitions"}
        )
    for row in withheld_of_others(daemon):
        text = f"{of_others(row)} to be granted: narval grants --agent {row['agent']}"
        yield item("grant", "middle", text, {"page": "status"})


def _servers(daemon: Daemon) -> Iterator[Form]:
    """The MCP servers that need a login, and the tools that are not called because they have changed."""
    if (servers := daemon.calls.executor.servers) is not None:
        for login in servers.wanted_logins()[:SHOWN]:
            text = f"the MCP server {login.server}: {login.why}"
            yield item("login", "middle", text, {"page": "status"}, login.since)
        changed = servers.changed(daemon.agent.library)
        for one in changed[:SHOWN]:
            text = f"{one.server}.{one.tool.action} is not called: its MCP server has changed it"
            text = f"{text}; look, and accept it: narval mcp tools {one.server} --refresh"
            yield item("tool", "middle", text, {"page": "status"}, one.since)
        if len(changed) > SHOWN:
            more = counted(len(changed) - SHOWN, "more tool")
            yield item(
                "tool", "middle", f"{more} changed, so not called: `narval status`", {"page": "status"}
            )


def _chats(daemon: Daemon) -> Iterator[Form]:
    """The chats that are not connected, or have a warning."""
    for chat in daemon.files.settings.chats:
        box = daemon.agents.own.chats.box(chat.name)
        if box.fault:
            text = f"the chat {chat.name} is not connected: {box.fault}"
            yield item("chat", "middle", text, {"page": "status"}, box.since)
        elif box.warning:
            yield item("chat", "low", f"the chat {chat.name}: {box.warning}", {"page": "status"}, box.since)


def _links(daemon: Daemon) -> Iterator[Form]:
    """The links that have stopped, or over which messages wait; only if the home's own agent is asked."""
    if not (daemon.agent.store.is_own and daemon.files.snapshot.peers):
        return
    from narval.ask.daemon.links import links_in_trouble  # here: most homes have no links

    troubles = links_in_trouble(daemon)
    for text, since in islice(troubles, SHOWN):
        yield item("link", "middle", f"{text}; `narval link` tells of each", {"page": "status"}, since)


def _suspended(daemon: Daemon) -> Iterator[Form]:
    """The suspended agents with waiting messages from this agent, or from any if the home's own is asked."""
    own, room, waiting = daemon.agent.store, daemon.host.mail.office.room, dict[str, int]()
    for row in daemon.agents.rows.in_full() if room else ():
        many = room.of(row.agent) if own.is_own else room.of_pair(row.agent, own.agent)
        if many and row.state == SUSPENDED:
            waiting[row.name] = many
    for name in sorted(waiting)[:SHOWN]:
        wait = counted(waiting[name], "message waits", "messages wait")
        text = f"{wait} for agent {name}, which is suspended: narval agents resume {name}"
        yield item("agent", "middle", text, {"agent": name})
    if len(waiting) > SHOWN:
        text = f"messages wait for {counted(len(waiting) - SHOWN, 'more suspended agent')}: `narval agents`"
        yield item("agent", "middle", text, {"page": "status"})


def _calls(daemon: Daemon) -> Iterator[Form]:
    """Calls that outlived their time limit."""
    given_up = daemon.calls.counts.given_up
    if given_up:
        text = f"{counted(given_up, 'call')} outlived the time limit, and may go on until the daemon ends"
        yield item("outlived", "middle", text, {"page": "status"})


def _others(daemon: Daemon) -> Iterator[Form]:
    """The other agents with open problems, if the home's own is asked: how many, and how to see them."""
    if not daemon.agent.store.is_own or not len(daemon.agents.rows):
        return
    open_there, folders = daemon.agents.supervisor.open_matters(), daemon.files.snapshot.agents
    faults = {name: len(files.faults) for name, files in folders.items() if files.faults}
    names = sorted({*open_there, *faults})
    for name in names[:SHOWN]:
        failed, errors, asked, is_cut = open_there.get(name, NOTHING_OPEN)
        counts = {"fault": faults.get(name, 0), "failed run": failed, "other error": errors}
        counts["open item"] = asked
        said = listed([counted(count, what) for what, count in counts.items() if count])
        if is_cut:
            said = f"at least {said}" if said else "older failures and errors that were not looked at"
        grave = "high" if failed or errors or name in faults else "low"
        text = f"agent {name} has {said}: narval attention --agent {name}"
        yield item("agent", grave, text, {"agent": name})
    if len(names) > SHOWN:
        text = f"{counted(len(names) - SHOWN, 'more agent')} with something open: `narval agents` lists them"
        yield item("agent", "low", text, {"page": "status"})


def _missed(daemon: Daemon) -> Iterator[Form]:
    """Moments that came late within the last day, by reason."""
    since = daemon.rounds.clock.now() - A_DAY
    late = [missed for missed in daemon.agent.clockwork.late if missed.came >= since]
    for why in dict.fromkeys(missed.why for missed in late):
        missed = [one for one in late if one.why == why]
        dropped = sum(one.dropped for one in missed)
        lost = f", {dropped} of which were dropped" if dropped else ""
        text = f"{counted(len(missed), 'moment')} came late{lost}: {why}; `narval calendar` tells which"
        yield item("missed", "middle", text, {"page": "calendar"}, missed[0].at)
