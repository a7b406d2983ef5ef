"""W21: what a definition would have done in ninety days, on a home to which mails came in that time.

    python -m bench.past [ARRIVALS]

The home has answered each of its mails by a run of its own, with a call outside. Then the command
`narval simulate --since` tries a definition of which nine of ten mails begin a run, with a call outside each.
Told are the time of the command and the most memory that it had.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import narval
from bench.large import mail
from bench.measure import argument, emit, home, now, scratch
from narval.agent.turn import Turn

DAYS = 90
AT_ONCE = 1_000

MODULE = """
from narval import Input, Output, action

@action(runs="inline", pure=True)
def nothing():
    pass

@action(inputs=[Input("mail", "email", use=True)], outputs=[Output("answer", "answer[@to]")], runs="inline")
def answer(mail):
    return f"<answer to='{mail.attributes['from']}'/>"

@action(inputs=[Input("mail", "email")], outputs=[Output("filed", "filed")], runs="inline")
def file(mail):
    return "<filed/>"
"""

RECIPE = """<recipe group="{group}" name="{name}" start_step="listen" end_step="do" restart="parallel"
  decay="604800">
  <step id="listen" type="action" target="w.nothing"/>
  <step id="do" type="action" target="{action}"/>
  <transition id="arrival"><in idref="listen"/><out idref="do"/>
    <condition use="yes"><match>{match}</match></condition></transition>
</recipe>"""

OWN = RECIPE.format(group="w", name="reply", action="w.answer", match="email[@list='no']")
NEW = RECIPE.format(group="try", name="sort", action="w.file", match="email[not(contains(@from, '7@'))]")


def fill(folder: Path, count: int) -> None:
    """Let so many mails come, and spread them over the days."""
    settings = 'timezone = "UTC"\n'
    with narval.open(home(folder, module=MODULE, recipes=OWN, settings=settings)) as agent:
        agent.start("w.reply")

        def arrive(numbers: range, turn: Turn) -> None:
            for number in numbers:
                turn.add(mail(number))

        for first in range(0, count, AT_ONCE):
            numbers = range(first, min(count, first + AT_ONCE))
            agent.runner.run(agent.daemon.host.submit(partial(arrive, numbers)))
            agent.until_idle()
    with sqlite3.connect(folder / "var/store.db") as store:
        last = store.execute("SELECT max(eid) FROM elements").fetchone()[0]
        begin, step = time.time() - (DAYS - 1) * 86_400, (DAYS - 2) * 86_400 / last
        moved = begin, step
        store.execute("UPDATE elements SET added = ? + eid * ? WHERE name IN ('email', 'answer')", moved)
        store.execute("UPDATE runs SET started = ? + eid * ?, ended = ? + eid * ?", moved * 2)
        store.execute("UPDATE journal SET at = ? + run * ?", moved)
        store.execute("DELETE FROM moments")


def measure(folder: Path, count: int) -> None:
    """Run the command as a user would."""
    (folder / "new.xml").write_text(NEW)
    command = [sys.executable, "-m", "narval", "--home", str(folder), "simulate", str(folder / "new.xml")]
    began = now()
    with subprocess.Popen([*command, "--since", f"{DAYS}d", "--json"], stdout=subprocess.PIPE) as program:
        report = json.loads(program.stdout.read() if program.stdout is not None else b"")
        _, status, used = os.wait4(program.pid, 0)
        program.returncode = os.waitstatus_to_exitcode(status)
    seconds = now() - began
    came = sum(report["came"].values())
    if came < count or report["begun"] < count * 0.85:
        raise SystemExit(f"expected {count} arrivals and as many runs, found {came} and {report['begun']}")
    more = {"begun": report["begun"], "cpu_s": round(used.ru_utime + used.ru_stime, 1)}
    emit(f"W21-{count}", count, seconds, rss_mb=round(used.ru_maxrss / 1024, 1), **more)


def main() -> None:
    """Make the home and measure."""
    count = argument(1, 100_000)
    with scratch() as folder:
        fill(folder / "home", count)
        measure(folder / "home", count)


if __name__ == "__main__":
    main()
