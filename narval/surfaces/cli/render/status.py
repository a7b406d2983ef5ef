"""The status of a daemon, of an agent, and what needs attention, for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from narval.ask.text import Row, clean, counted, moment, moment_in_zone, moments_of_zone, of_others, size
from narval.core.definitions.reading.durations import duration
from narval.surfaces.cli.render.answers import MOST_LINES, section, standing
from narval.surfaces.cli.render.tables import CALLS, LATER, LIMITS, RUNS, Column, fields

DAEMONS = (
    Column("home", lambda row: row["home"] + (" (this)" if row["self"] else "")),
    Column("address", lambda row: row["address"]),
    Column("agents", lambda row: f"{row['agents']:,}", right=True),
    Column("until", lambda row: moment(row["until"]), is_moment=True),
    Column("", lambda row: "takes no agents" if row["draining"] else ""),
)
"""The daemons that share a store."""


def status(answer: Row) -> None:
    """Write the status of a daemon."""
    attention(answer["attention"])
    click.echo()
    executor, kinds = answer["executor"], answer["kinds"]
    alive = answer["state"] == "running"
    given_up, left = executor.get("given_up"), answer.get("calls_left")
    under_way = f"{executor['running']} running, {executor['queued']} queued"
    since = alive and f"{moment_in_zone(answer['since'])}, for {duration(answer['uptime'])}"
    waiting = f"{counted(left, 'call waits', 'calls wait')} for the next start" if left else None
    fields(
        [
            ("home", answer["home"]),
            ("agent", f"{clean(answer['agent'])}, {standing(answer)}" if "agent_state" in answer else None),
            ("daemon", _DAEMON[answer["state"]](answer)),
            ("since", since or None),
            ("agents", _counts(answer["agents"]) if "agents" in answer else None),
            ("runs", _counts(answer["runs"])),
            *((f"  {kind}", _counts(phases)) for kind, phases in kinds.items() if len(kinds) > 1),
            ("waiting", _waits_of(answer)),
            ("elements", f"{answer['elements']:,}"),
            ("store", _store_of(answer)),
            ("fleet", _fleet_of(answer)),
            ("calls", under_way if alive else waiting),
            ("cluster", _cluster_of(answer["cluster"]) if "cluster" in answer else None),
            ("mcp", _servers_of(answer["mcp"]) if "mcp" in answer else None),
            ("given up", counted(given_up, "call that outlived its time limit") if given_up else None),
            ("faults", f"{len(answer['faults'])}; `narval check` tells them" if answer["faults"] else None),
            ("grants", _grants_of(answer["grants"]) if answer["grants"]["asks"] else None),
            (
                "inbox",
                _inbox_of(answer.get("inbox"), f"agents/{name}" if (name := answer.get("agent")) else None),
            ),
        ]
    )
    fleet = answer.get("fleet", ())
    section("daemons of the store:", DAEMONS, () if all(row["self"] for row in fleet) else fleet)
    section("", CALLS, answer["calls"])
    section("to come:", LATER, answer["later"])
    section("failed of late:", RUNS, answer["failures"])


def waiting(answer: Row) -> None:
    """Write the status of a daemon that waits for the server of its store."""
    fields(
        [
            ("home", answer["home"]),
            ("daemon", f"program {answer['pid']} waits for the server of the store"),
            ("since", moment_in_zone(answer["since"])),
            ("store", f"away: {clean(answer['away']['why'])}"),
        ]
    )


def _grants_of(grants: Row) -> str:
    """The grants in a line: what waits for a grant, and the means of confining code."""
    waiting = counted(len(grants["withheld"]), "definition waits", "definitions wait")
    text = f"{waiting}: `narval grants`" if grants["withheld"] else "no definition waits to be granted"
    others = (
        f"{clean(of_others(row))}: `narval grants --agent {row['agent']}`" for row in grants["of_others"]
    )
    return "; ".join((text, *others, confining(grants)))


def confining(grants: Row) -> str:
    """The means of confining code, and where unconfined code of collections runs."""
    text = f"confined code is held by {clean(grants['confined_by'])}"
    places = grants["not_confined"]
    return f"{text}; not confined: {', '.join(map(clean, places))}" if places else text


def _servers_of(servers: Row) -> str:
    """The running MCP servers, and the tools whose descriptions changed."""
    at_work = f"{', '.join(map(clean, servers['running'])) or 'no servers'} at work"
    changed = [clean(row["tool"]) for row in servers["changed"]]
    return f"{at_work}; changed, so not called: {', '.join(changed)}" if changed else at_work


def _cluster_of(cluster: Row) -> str:
    """The cluster in a line: its threads and its calls, or why there is none."""
    if cluster["away"]:
        return f"away: {clean(cluster['away'])}"
    return f"{counted(cluster['threads'], 'thread')}, {cluster['tasks']} under way"


_GRAVE = {"high": "red", "middle": "yellow", "low": ""}


def attention(items: Sequence[Row]) -> None:
    """Write what needs attention, or that there is nothing."""
    if not items:
        click.echo("Nothing needs attention.")
        return
    moments = f" ({moments_of_zone()})" if any(item["since"] for item in items) else ""
    click.echo(f"needs attention{moments}:")
    for item in items:
        since = f" (since {moment(item['since'])})" if item["since"] else ""
        click.echo(f"  {click.style(clean(item['text']), fg=_GRAVE[item['grave']] or None)}{since}")


def agent(answer: Row) -> None:
    """Write the settings and limits of an agent."""
    settings = {name: value for name, value in answer["settings"].items() if value not in (None, {}, [])}
    why = f": {clean(answer['why'])}" if answer["why"] else ""
    if answer["state"] == "elsewhere" and answer["why"]:
        click.echo(clean(answer["why"]))  # the text begins with the name
    else:
        click.echo(f"{clean(answer['name'])} is {answer['state']}{why}")
    fields(
        [
            ("folder", answer["folder"]),
            ("inbox", _inbox_of(answer["inbox"], answer["folder"])),
            ("faults", f"{len(answer['faults'])}; `narval check` tells them" if answer["faults"] else None),
            *((name, clean(_setting(name, value))) for name, value in settings.items()),
        ]
    )
    section("", LIMITS, answer["limits"])


_DURATIONS = ("forget_after", "idle_after", "keep")


def _setting(name: str, value: Any) -> str:
    """A setting as people read it."""
    if name in _DURATIONS:
        return duration(value)
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_setting(key, inner)}" for key, inner in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_setting("", inner) for inner in value)
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


CLOCKS_SHOWN = 0.5
"""The smallest difference of clocks, in seconds, that is shown."""

_SURVIVES = {"crash": "a crash", "power": "a loss of power"}
_WAITED_FOR = {"call": "for a call", "condition": "for an element", "time": "for a moment"}


def _counts(phases: Row) -> str:
    return ", ".join(f"{count} {phase}" for phase, count in phases.items())


def _alive(answer: Row) -> str:
    held = f", {size(answer['memory'])}" if answer.get("memory") else ""
    return f"narval {answer['version']} {answer['state']}, pid {answer['pid']}{held}"


def _held(answer: Row) -> str:
    pid = answer["pid"]
    why = "it is starting, ending, or a command, or its socket is gone"
    return (
        f"none listens, but program {pid} holds the home: {why}; if that stays so, `kill {pid}` ends it well"
    )


def _standby(answer: Row) -> str:
    return f"a standby, program {answer['pid']}, waits for the end of the daemon of this home elsewhere"


_DAEMON: Mapping[str, Callable[[Row], str]] = {
    "running": _alive, "held": _held, "standby": _standby, "stopped": lambda answer: "none runs",
}  # fmt: skip


def _fleet_of(answer: Row) -> str:
    """The number of daemons that share the store, the difference of its clock, and lost leases."""
    if not answer.get("fleet"):
        return ""
    apart = answer["apart"]
    clocks = f", clocks {abs(apart):.1f} s apart" if apart is not None and abs(apart) >= CLOCKS_SHOWN else ""
    lost = f", {counted(len(answer['lost']), 'lease')} lost here" if answer["lost"] else ""
    return f"{counted(len(answer['fleet']), 'daemon')}{clocks}{lost}"


def _store_of(answer: Row) -> str:
    if answer.get("away"):
        return f"away since {moment_in_zone(answer['away']['since'])} ({clean(answer['away']['why'])})"
    server = clean(answer.get("server", ""))
    if server:
        took = answer["answered_in"]
        return server if took is None else f"{server}, answers in {took * 1000:.0f} ms"
    return f"{size(answer['store'])}, survives {_SURVIVES[answer['durability']]}" if answer["store"] else ""


def _inbox_of(inbox: Row | None, folder: str | None = None) -> str:
    """The trouble of an inbox, or ""; a file that is about to be added is not trouble."""
    if not inbox:
        return ""
    waiting = ", ".join(inbox["taken"][:MOST_LINES])
    waits = f"; {waiting} waits for that" if waiting else ""
    stuck = [f"stuck: {inbox['stuck']}{waits}"] if inbox["stuck"] else []
    refused = (
        [f"{inbox['refused']} refused, in {f'{folder}/' if folder else ''}inbox/refused"]
        if inbox["refused"]
        else []
    )
    return "; ".join(stuck + refused)


def _waits_of(answer: Row) -> str:
    return ", ".join(f"{number} {_WAITED_FOR[what]}" for what, number in answer["waits"].items() if number)
