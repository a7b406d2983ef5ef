"""A small home, and the command line on it: within the test's own program, or as a program of its own."""

from __future__ import annotations

import gc
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from narval.surfaces.cli import main
from tests.forked_commands import Command, command

RECIPES = """\
<cookbook group="demo">
  <recipe group="demo" name="greet" start_step="say" end_step="end">
    <step id="say" type="action" target="talk.say"/>
    <step id="end" type="action" target="talk.nothing"/>
    <transition id="said"><in idref="say"/><out idref="end"/></transition>
  </recipe>
  <recipe group="demo" name="await" start_step="begin" end_step="end">
    <step id="begin" type="action" target="talk.nothing"/>
    <step id="end" type="action" target="talk.nothing"/>
    <transition id="answered">
      <in idref="begin"/><out idref="end"/>
      <condition use="yes"><match>letter[@to='ann' and @urgent='yes']</match></condition>
    </transition>
  </recipe>
  <recipe group="demo" name="fail" start_step="break" end_step="break">
    <step id="break" type="action" target="talk.fail"/>
  </recipe>
  <recipe group="demo" name="slow" start_step="wait" end_step="wait">
    <step id="wait" type="action" target="talk.slow"/>
  </recipe>
</cookbook>
"""

MODULE = """\
import asyncio
import logging
from narval import Input, Output, action

log = logging.getLogger("narval.talk")


@action(runs="inline", description="Does nothing.")
def nothing():
    log.info("nothing was done")


@action(inputs=[Input("name", "name")], outputs=[Output("greeting", "greeting")], runs="inline",
        description="Greets who is named.")
def say(name):
    return f"<greeting>Hello {name.text}</greeting>"


@action(runs="inline", description="Fails.")
def fail():
    raise ValueError("there is nobody to talk to")


@action(description="Takes its time.")
async def slow():
    await asyncio.sleep(3600)
"""

NAME = "<name>Ann</name>"


# --- a home, a command, a daemon ------------------------------------------------------------------------


def make_home(place: Path) -> Path:
    for part in ("etc", "recipes", "modules", "data"):
        (place / part).mkdir(parents=True)
    (place / "recipes" / "demo.xml").write_text(RECIPES)
    (place / "modules" / "talk.py").write_text(MODULE)
    return place


def narval(home: Path, *arguments: object, given: str = "") -> Result:
    """A command within this program, which is faster; one that is refused as it starts leaves the collector
    off, for its program ends.
    """
    try:
        return CliRunner().invoke(main, ["--home", str(home), *map(str, arguments)], input=given)
    finally:
        gc.enable()


def well(home: Path, *arguments: object, given: str = "") -> str:
    """What a command writes that must end well."""
    result = narval(home, *arguments, given=given)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def data(home: Path, *arguments: object, given: str = "") -> Any:
    return json.loads(well(home, *arguments, "--json", given=given))


def program(home: Path, *arguments: object) -> list[str]:
    return [sys.executable, "-m", "narval", "--home", str(home), *map(str, arguments)]


def separately(home: Path, *arguments: object, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """A command as a program of its own."""
    return command(program(home, *arguments)[3:], given)


def begun(home: Path, *arguments: object, given: bytes = b"") -> Command:
    """A command that goes on beside the test."""
    return Command(program(home, *arguments)[3:], given)


def line_of(running: Command) -> bytes:
    """The next line that a command writes."""
    return running.stdout.readline()


@contextmanager
def daemon(home: Path, *arguments: object) -> Iterator[Command]:
    """A daemon that is ready."""
    running = begun(home, "run", *arguments)
    try:
        assert b"is ready" in line_of(running)
        yield running
    finally:
        if running.poll() is None:
            running.send_signal(signal.SIGCONT)
            running.kill()
        running.communicate()


def ended(running: Command) -> tuple[int, str, str]:
    out, err = running.communicate()
    return running.returncode, out.decode(), err.decode()


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.01)


def run_of(home: Path, name: str) -> int:
    """The newest run of a definition."""
    return int(data(home, "runs", "--name", name, "--limit", 1)[0]["eid"])
