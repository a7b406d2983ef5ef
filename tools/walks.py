"""Count walks through the house: `python tools/walks.py` in a checkout of any commit, with its environment.

A walk is what one thing passes through, from where it enters to where its outcome leaves. It is traced as it
happens, in a program that uses public names alone, so that commits can be compared.

The *spine* of a walk is what somebody reads who follows it: the functions through which it is handed on. A
function is on the spine when it, or something that it calls, does one of these:

- it puts something into a queue or takes it out (`deque`, `SimpleQueue`);
- it writes to the store, or reads or writes a pipe, a socket or a file descriptor;
- it is an engine that asks for something (a command);
- it calls a function of a module outside the package.

Whatever only computes and returns is not on it.

- A *hop* is a call on the spine from a function in one file to a function in another. Each pair of functions
  counts once, however often the walk takes it.
- *files* are those that the spine enters, and *returns* the hops into a file that it has entered before.

What a worker program or the operating system does is not seen. Each walk is made four times. The first is not
counted, since things are imported and compiled in it. A hop counts when each of the others takes it, since a
daemon does other things besides. `--hops` lists the hops too.
"""

from __future__ import annotations

import collections
import getpass
import queue
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import narval
from narval.surfaces.cli import main as narval_command

PACKAGE = str(Path(narval.__file__).parent) + "/"
COUNTED = 3
ENGINE_ASKS = frozenset({"Decision.ask", "Decision.command"})
STORE_WRITES = frozenset({"execute", "executemany", "executescript", "commit"})
DESCRIPTOR_USES = frozenset({"read", "write", "writev", "send", "sendall", "recv", "recv_into"})
QUEUE_USES = frozenset({"append", "appendleft", "popleft", "put", "get"})

MODULE = """
from narval import Output, action, function

@function
def same(row):
    return row

@action(outputs=[Output("answer", "answer")], runs="worker")
def far():
    return "<answer/>"
"""
RECIPES = """<cookbook group="post">
  <recipe name="call" start_step="far" end_step="far">
    <step id="far" type="action" target="m.far"/>
  </recipe>
  <work name="ask"><title>Go on?</title><for people="ann"/><outcome name="yes"/><outcome name="no"/></work>
</cookbook>"""
PLANS = """
PLAN Within { INPUT: TupleStream home; OUTPUT: TupleStream out; BODY { project("value", home : out) } }
PLAN Outside { INPUT: TupleStream home; OUTPUT: TupleStream out; BODY { map("same", home : out) } }
"""
PEOPLE = f'[people.ann]\nname = "Ann"\nlogin = "{getpass.getuser()}"\n'
MAIL = """From: Ada <ada{number}@example.org>
To: assistant@example.org
Subject: Lunch {number}?
Message-ID: <{number}@example.org>

At noon?
"""

Hop = tuple[tuple[str, str], tuple[str, str]]


class Spine:
    """The spine of what happens while `counting` is true, in this thread and those that begin later."""

    def __init__(self) -> None:
        self.counting = False
        self._walks: list[set[Hop]] = []

    @property
    def hops(self) -> set[Hop]:
        """The hops that each walk took."""
        return set.intersection(*self._walks)

    @property
    def files(self) -> set[str]:
        """The files that these enter or leave."""
        return {file for hop in self.hops for file, _ in hop}

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        """A function for `sys.setprofile`."""
        if not self.counting:
            return
        if event == "c_call":
            if _hands_on(argument):
                self._mark(frame)
        elif event == "call":
            code = frame.f_code
            if not code.co_filename.startswith(PACKAGE):
                if "/modules/" in code.co_filename:
                    self._mark(frame)
            elif code.co_qualname in ENGINE_ASKS:
                self._mark(frame)

    def _mark(self, frame: FrameType | None) -> None:
        """Put a function and all that called it on the spine."""
        callee = None
        while frame is not None:
            code = frame.f_code
            if code.co_filename.startswith(PACKAGE):
                here = (code.co_filename.removeprefix(PACKAGE), code.co_qualname)
                if callee is not None and callee[0] != here[0]:
                    self._walks[-1].add((here, callee))
                callee = here
            frame = frame.f_back

    @contextmanager
    def traced(self) -> Iterator[None]:
        """Trace this thread and those that begin in the meantime."""
        threading.setprofile(self.profile)
        sys.setprofile(self.profile)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count what happens in the meantime."""
        self._walks.append(set())
        self.counting = True
        try:
            yield
        finally:
            self.counting = False


def _hands_on(function: Any) -> bool:
    """Whether a built-in function hands something on."""
    name, owner = function.__name__, getattr(function, "__self__", None)
    if isinstance(owner, (collections.deque, queue.SimpleQueue)):
        return name in QUEUE_USES
    if isinstance(owner, (sqlite3.Connection, sqlite3.Cursor)):
        return name in STORE_WRITES
    return name in DESCRIPTOR_USES and getattr(owner, "__name__", type(owner).__name__) in ("posix", "socket")


def mail(home: Path, spine: Spine) -> None:
    """A mail to its answer"""
    box, outbox = home / "data" / "demo" / "Maildir" / "new", home / "var" / "outbox" / "new"
    for path in box.iterdir():
        path.unlink()
    with spine.traced(), narval.open(home) as agent:
        agent.until_idle()

        def walk(number: int) -> None:
            draft = box.parent / "tmp" / f"mail-{number}"
            draft.write_text(MAIL.format(number=number))
            draft.rename(box / draft.name)
            while not outbox.is_dir() or len(list(outbox.iterdir())) < number:
                agent.until_idle()
                time.sleep(0.01)

        walk(1)
        for number in range(2, 2 + COUNTED):
            with spine.counted():
                walk(number)


def worker(home: Path, spine: Spine) -> None:
    """A call to a worker and back"""
    with spine.traced(), narval.open(home) as agent:
        agent.wait(agent.start("post.call"))
        for _ in range(COUNTED):
            with spine.counted():
                agent.wait(agent.start("post.call"))


def within(home: Path, spine: Spine) -> None:
    """A tuple that stays in its dataflow"""
    flow(home, spine, "flow.Within")


def outside(home: Path, spine: Spine) -> None:
    """A tuple that leaves it and comes back"""
    flow(home, spine, "flow.Outside")


def flow(home: Path, spine: Spine, name: str) -> None:
    """Walk through a dataflow."""
    with spine.traced(), narval.open(home) as agent:
        agent.wait(agent.start(name, environment={"home": "a"}))
        for _ in range(COUNTED):
            with spine.counted():
                agent.wait(agent.start(name, environment={"home": "a"}))


def work(home: Path, spine: Spine) -> None:
    """`work answer` from the terminal"""
    with narval.open(home) as agent:
        items = [agent.start("post.ask") for _ in range(1 + COUNTED)]
        agent.until_idle()

    def terminal() -> None:
        try:
            while not any((home / "var").glob("*.sock*")):
                time.sleep(0.01)
            command("--home", str(home), "work", "answer", str(items[0]), "yes")
            for item in items[1:]:
                with spine.counted():
                    command("--home", str(home), "work", "answer", str(item), "yes")
        finally:
            command("--home", str(home), "stop")

    thread = threading.Thread(target=terminal)
    with spine.traced(), mock.patch("os._exit", sys.exit):  # a daemon that ends does not wait for its threads
        thread.start()
        command("--home", str(home), "run")
        thread.join()


def command(*words: str) -> None:
    """Do what `narval WORDS` does, in this program. Raises RuntimeError when it fails."""
    try:
        narval_command(list(words), prog_name="narval")
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"narval {' '.join(words)} ended with {end.code}") from None


def main() -> None:
    """Print a line for each walk."""
    walks = (mail, "demo"), (worker, "none"), (work, "none"), (within, "none"), (outside, "none")
    for walk, reads in walks:
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()):
            home, spine = Path(folder) / "home", Spine()
            command("init", str(home), "--mail", reads)
            files = {
                "recipes/post.xml": RECIPES,
                "recipes/flow.plan": PLANS,
                "modules/m.py": MODULE,
                "etc/people.toml": PEOPLE,
            }
            settings = home / "etc/narval.toml"
            trusting = settings.read_text().replace('grants = "ask"', 'grants = "trust"')
            files["etc/narval.toml"] = trusting
            for name, text in files.items():
                (home / name).parent.mkdir(parents=True, exist_ok=True)
                (home / name).write_text(text)
            walk(home, spine)
        returns = len(spine.hops) - len(spine.files) + 1
        print(
            f"{walk.__doc__:<38} {len(spine.hops):>4} hops {len(spine.files):>4} files {returns:>4} returns"
        )
        if "--hops" in sys.argv:
            for caller, callee in sorted(spine.hops):
                print(f"    {':'.join(caller)} -> {':'.join(callee)}")


if __name__ == "__main__":
    main()
