"""The state of a daemon, of an agent, and what needs attention, for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from narval.ask.text import Row, clean, counted, moment, size, zone
from narval.core.definitions.reading.durations import duration
from narval.surfaces.cli.render.answers import MOST_LINES, section, standing
from narval.surfaces.cli.render.tables import CALLS, LATER, LIMITS, RUNS, Column, fields

DAEMONS = (
    Column("home", lambda row: row["home"] + (" (this)" if row["self"] else "")),
    Column("address", lambda row: row["address"]),
    Column("agents", lambda row: f"{row['agents']:,}", right=True),
    Column("until", lambda row: moment(row["until"]), is_moment=True),
    Column("", lambda row: "drains" if row["draining"] else ""),
)
"""The daemons that share a store."""


def status(shown: Row) -> None:
    """Write the status of a daemon."""
    attention(shown["attention"])
    click.echo()
    executor, kinds = shown["executor"], shown["kinds"]
    alive = shown["state"] == "running"
    given_up, left = executor.get("given_up"), shown.get("calls_left")
    under_way = f"{executor['running']} running, {executor['queued']} queued"
    since = alive and f"{moment(shown['since'])} {zone()}, for {duration(shown['uptime'])}"
    waiting = f"{counted(left, 'call waits', 'calls wait')} for the next start" if left else None
    fields(
        [
            ("home", shown["home"]),
            ("agent", f"{clean(shown['agent'])}, {standing(shown)}" if "agent_state" in shown else None),
            ("daemon", _DAEMON[shown["state"]](shown)),
            ("since", since or None),
            ("agents", _counts(shown["agents"]) if "agents" in shown else None),
            ("runs", _counts(shown["runs"])),
            *((f"  {kind}", _counts(phases)) for kind, phases in kinds.items() if len(kinds) > 1),
            ("waiting", _waits_of(shown)),
            ("elements", f"{shown['elements']:,}"),
            ("store", _store_of(shown)),
            ("fleet", _fleet_of(shown)),
            ("calls", under_way if alive else waiting),
            ("cluster", _cluster_of(shown["cluster"]) if "cluster" in shown else None),
            ("given up", counted(given_up, "call that outlived its time limit") if given_up else None),
            ("faults", f"{len(shown['faults'])}; `narval check` tells them" if shown["faults"] else None),
            (
                "inbox",
                _inbox_of(shown.get("inbox"), f"agents/{name}" if (name := shown.get("agent")) else None),
            ),
        ]
    )
    fleet = shown.get("fleet", ())
    section("daemons of the store:", DAEMONS, () if all(row["self"] for row in fleet) else fleet)
    section("", CALLS, shown["calls"])
    section("to come:", LATER, shown["later"])
    section("failed of late:", RUNS, shown["failures"])


def waiting(shown: Row) -> None:
    """Write the status of a daemon that waits for the server of its store."""
    fields(
        [
            ("home", shown["home"]),
            ("daemon", f"program {shown['pid']} waits for the server of the store"),
            ("since", f"{moment(shown['since'])} {zone()}"),
            ("store", f"away: {clean(shown['away']['why'])}"),
        ]
    )


def _cluster_of(cluster: Row) -> str:
    """The cluster in a line: its threads and what is on it, or why there is none."""
    if cluster["away"]:
        return f"away: {clean(cluster['away'])}"
    return f"{counted(cluster['threads'], 'thread')}, {cluster['tasks']} under way"


_GRAVE = {"high": "red", "middle": "yellow", "low": ""}


def attention(items: Sequence[Row]) -> None:
    """Write what needs attention, or that nothing does."""
    if not items:
        click.echo("Nothing needs attention.")
        return
    click.echo("needs attention:")
    for item in items:
        since = f" (since {moment(item['since'])})" if item["since"] else ""
        click.echo(f"  {click.style(clean(item['text']), fg=_GRAVE[item['grave']] or None)}{since}")


def agent(shown: Row) -> None:
    """Write what counts for an agent."""
    settings = {name: value for name, value in shown["settings"].items() if value not in (None, {}, [])}
    why = f": {clean(shown['why'])}" if shown["why"] else ""
    if shown["state"] == "elsewhere" and shown["why"]:
        click.echo(clean(shown["why"]))  # it begins with the name
    else:
        click.echo(f"{clean(shown['name'])} is {shown['state']}{why}")
    fields(
        [
            ("folder", shown["folder"]),
            ("inbox", _inbox_of(shown["inbox"], shown["folder"])),
            ("faults", f"{len(shown['faults'])}; `narval check` tells them" if shown["faults"] else None),
            *((name, clean(_setting(name, value))) for name, value in settings.items()),
        ]
    )
    section("", LIMITS, shown["limits"])


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
"""Seconds by which clocks differ that are told."""

_SURVIVES = {"crash": "a crash", "power": "a loss of power"}
_WAITED_FOR = {"call": "for a call", "condition": "for an element", "time": "for a moment"}


def _counts(phases: Row) -> str:
    return ", ".join(f"{count} {phase}" for phase, count in phases.items())


def _alive(shown: Row) -> str:
    held = f", {size(shown['memory'])}" if shown.get("memory") else ""
    return f"narval {shown['version']} {shown['state']}, pid {shown['pid']}{held}"


def _held(shown: Row) -> str:
    return f"none listens, but program {shown['pid']} holds the home: it is starting, ending, or a command"


def _standby(shown: Row) -> str:
    return f"a standby, program {shown['pid']}, waits for the end of the daemon of this home elsewhere"


_DAEMON: Mapping[str, Callable[[Row], str]] = {
    "running": _alive, "held": _held, "standby": _standby, "stopped": lambda shown: "none runs",
}  # fmt: skip


def _fleet_of(shown: Row) -> str:
    """The number of daemons that share the store, and by how much its clock differs."""
    if not shown.get("fleet"):
        return ""
    apart = shown["apart"]
    clocks = f", clocks {abs(apart):.1f} s apart" if apart is not None and abs(apart) >= CLOCKS_SHOWN else ""
    return f"{counted(len(shown['fleet']), 'daemon')}{clocks}"


def _store_of(shown: Row) -> str:
    if shown.get("away"):
        return f"away since {moment(shown['away']['since'])} ({clean(shown['away']['why'])})"
    return f"{size(shown['store'])}, survives {_SURVIVES[shown['durability']]}" if shown["store"] else ""


def _inbox_of(inbox: Row | None, folder: str | None = None) -> str:
    """The trouble of an inbox, or ""; a file that is about to be added is none."""
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


def _waits_of(shown: Row) -> str:
    return ", ".join(f"{number} {_WAITED_FOR[what]}" for what, number in shown["waits"].items() if number)
