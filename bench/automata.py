"""W6: a build of so many one-command states, when there is all to do and when there is nothing, and the
restart of a program that was killed; the build beside the limit, a loop of posix_spawn, in turn in one run.

    python -m bench.automata build|nothing|restart [N] [ROUNDS]

The graph is that of the peers' script: layers of 100, each state needs two of the layer before, the command
is `touch OUT`, and four run at once. A running daemon is asked, and the time is that until it has answered
that the run is done.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from statistics import median

from bench import measure, programs
from bench.measure import emit, now, percentile, scratch
from narval.surfaces.control.client import Client

WIDTH = 100
PARALLEL = 4


def name(layer: int, place: int) -> str:
    """The file that a state makes."""
    return f"out/{layer}_{place % WIDTH}"


def needed(layer: int, place: int) -> list[str]:
    """The files of the layer before that it needs."""
    return [name(layer - 1, place), name(layer - 1, place + 1)] if layer else []


def automaton(count: int) -> str:
    """The build as an automaton."""
    nodes = [divmod(each, WIDTH) for each in range(count)]
    states = ['<state name="start" command="true" creates="out"/>']
    arcs = []
    for layer, place in nodes:
        own, needs = name(layer, place), needed(layer, place)
        attribute = f' needs="{" ".join(needs)}"' if needs else ""
        states.append(f'<state name="{_state(own)}" command="touch {own}" creates="{own}"{attribute}/>')
        arcs += [(_state(each), _state(own)) for each in needs] or [("start", _state(own))]
    written = [f'<transition from="{first}" label="0" to="{last}"/>' for first, last in arcs]
    return f'<automaton max-parallel="{PARALLEL}">{"".join(states + written)}</automaton>'


def _state(file: str) -> str:
    return "s" + file.removeprefix("out/")


def limit(count: int) -> float:
    """Seconds that a loop takes which does nothing but start programs and wait, four at once."""
    began, live = now(), 0
    for each in range(count):
        if live == PARALLEL:
            os.wait()
            live -= 1
        os.posix_spawnp("touch", ["touch", name(*divmod(each, WIDTH))], os.environ)
        live += 1
    while live:
        os.wait()
        live -= 1
    return now() - began


def run(client: Client) -> float:
    """Seconds that a run takes, as one sees it who asks for it."""
    began = now()
    eid = client.ask("start", name="w.w")["eid"]
    ended = client.ask("wait", run=eid, timeout=600)
    assert ended["phase"] == "done", ended
    return now() - began


def build(count: int, rounds: int, *, nothing: bool) -> None:
    """All to do, or nothing to do, in turn with the limit."""
    with scratch() as folder:
        home = measure.home(folder, recipes=automaton(count))
        os.chdir(home)
        (home / "out").mkdir()
        ours, limits = [], []
        with programs.running(home) as (_, client):
            if nothing:
                run(client)
            for _ in range(rounds):
                if not nothing:
                    for each in (home / "out").iterdir():
                        each.unlink()
                    limits.append(limit(count))
                    for each in (home / "out").iterdir():
                        each.unlink()
                ours.append(run(client))
        seconds = median(ours)
        more = {"all": [round(each, 4) for each in ours]}
        if limits:
            ratios = sorted(theirs / own for theirs, own in zip(limits, ours, strict=True))
            more |= {"limit_per_second": round(count / median(limits), 1), "ratio": round(median(ratios), 3)}
        emit(f"W6-{'nothing' if nothing else 'build'}-{count}", count, seconds, **more)


RESTARTED = """<automaton>
<state name="start" command="sh">echo $$ > pid.new; mv pid.new pid; exec sleep 600</state>
<transition from="start" label="SIGKILL" to="start"/></automaton>"""


def restart(deaths: int) -> None:
    """From the death of a program to its successor's first words."""
    with scratch() as folder:
        home = measure.home(folder, recipes=RESTARTED)
        with programs.running(home) as (_, client):
            run = client.ask("start", name="w.w")["eid"]
            current, taken = _other(home / "pid", 0), []
            for each in range(deaths):
                time.sleep(0.1 + 0.037 * each)
                began = now()
                os.kill(current, signal.SIGKILL)
                current = _other(home / "pid", current)
                taken.append(now() - began)
            client.ask("cancel", run=run)
        milliseconds = {f"p{each}_ms": round(percentile(taken, each) * 1e3, 1) for each in (50, 90)}
        emit("W6-restart", deaths, sum(taken), **milliseconds, max_ms=round(max(taken) * 1e3, 1))


def _other(file: Path, former: int) -> int:
    until = now() + 60
    while now() < until:
        if file.exists() and (written := file.read_text().strip()) and int(written) != former:
            return int(written)
        time.sleep(0.0005)
    raise TimeoutError("it was not started again")


def main(what: str = "build", count: str = "1000", rounds: str = "5") -> None:
    """One measurement."""
    if what == "restart":
        restart(min(int(count), 15))
    else:
        build(int(count), int(rounds), nothing=what == "nothing")


if __name__ == "__main__":
    main(*sys.argv[1:])
