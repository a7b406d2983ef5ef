"""Count walks through the house: `python tools/walks.py` in a checkout of any commit, with its environment.

A walk is what one thing passes through, from where it enters to where its outcome leaves. It is traced as it
happens, in a program that opens a home and uses public names alone, so that commits can be compared.

- A *hop* is a call from a function in one file of `narval/` to a function in another. Each pair of functions
  counts once, however often the walk takes it.
- *files* are those whose functions are entered.

What a worker program or the operating system does is not seen. Each walk is made twice and counted the second
time, so that what is imported and compiled once is no part of it.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import narval

PACKAGE = str(Path(narval.__file__).parent)

MODULE = """
from narval import Output, action

@action(outputs=[Output("answer", "answer")], runs="worker")
def far():
    return "<answer/>"
"""
RECIPES = """<cookbook group="post">
  <recipe name="sort" start_step="listen" end_step="judge" restart="parallel">
    <step id="listen" type="action" target="basic.nothing"/>
    <step id="judge" type="action" target="triage.judge"/>
    <transition id="arrival">
      <in idref="listen"/><out idref="judge"/>
      <condition use="yes"><match>email[@mailbox]</match></condition>
    </transition>
  </recipe>
  <recipe name="call" start_step="far" end_step="far">
    <step id="far" type="action" target="m.far"/>
  </recipe>
  <work name="ask"><title>Go on?</title><for people="ann"/><outcome name="yes"/><outcome name="no"/></work>
</cookbook>"""
PEOPLE = '[people.ann]\nname = "Ann"\n'
RULE = "<rule when='email' verdict='acknowledge' why='a person wrote it'/>"


def mail(agent: Any) -> Callable[[], None]:
    """A mail to its verdict."""
    agent.add(RULE)
    agent.start("post.sort")
    agent.until_idle()

    def walk() -> None:
        agent.add("<email mailbox='mine' from='ada@example.org' subject='Lunch?'/>")
        agent.until_idle()

    return walk


def worker(agent: Any) -> Callable[[], None]:
    """A call to a worker and back."""

    def walk() -> None:
        agent.wait(agent.start("post.call"))

    return walk


def work(agent: Any) -> Callable[[], None]:
    """An answer to an item of work."""
    items = iter([agent.start("post.ask") for _ in range(2)])
    agent.until_idle()
    return lambda: agent.answer(next(items), "yes")


def counted(walk: Callable[[], None]) -> tuple[int, int]:
    """The hops and files of a walk."""
    hops: set[tuple[str, str]] = set()
    files: set[str] = set()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        files.add(code.co_filename)
        before = frame.f_back
        while before is not None and not before.f_code.co_filename.startswith(PACKAGE):
            before = before.f_back
        if before is not None and before.f_code.co_filename != code.co_filename:
            ends = (before.f_code, code)
            hops.add(tuple(f"{end.co_filename}:{end.co_qualname}" for end in ends))  # type: ignore[arg-type]

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        walk()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return len(hops), len(files)


def main() -> None:
    """Print a line for each walk."""
    for walk_of in (mail, worker, work):
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder) / "home"
            for name, text in (
                ("recipes/post.xml", RECIPES), ("modules/m.py", MODULE), ("etc/people.toml", PEOPLE),
            ):  # fmt: skip
                (home / name).parent.mkdir(parents=True, exist_ok=True)
                (home / name).write_text(text)
            with narval.open(home, by="ann") as agent:
                walk = walk_of(agent)
                walk()
                hops, files = counted(walk)
                print(f"{walk_of.__doc__:<40} {hops:>5} hops {files:>5} files")


if __name__ == "__main__":
    main()
