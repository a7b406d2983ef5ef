"""A home on disk that asks one action, with settings of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import narval
from narval import Element
from narval.surfaces.python.agent import Agent


@contextmanager
def asking(folder: Path, settings: str) -> Iterator[Agent]:
    """A home with these settings, open."""
    for part in ("etc", "modules", "recipes", "data"):
        (folder / part).mkdir(exist_ok=True)
    (folder / "etc/narval.toml").write_text(settings)
    with narval.open(folder) as agent:
        yield agent


def answer(agent: Agent, action: str, arguments: str, *, step: str = "") -> Element:
    """What a step gives that calls an action with these arguments: its first product, or its error."""
    plain = arguments.replace("{", "{{")  # a brace would begin a value
    calling = f"<step id='a' type='action' target='{action}' {step}><arguments>{plain}</arguments></step>"
    agent.load(f"<recipe group='w' name='r' start_step='a' end_step='a'>{calling}</recipe>")
    run = agent.start("w.r")
    agent.until_idle()
    origins = ((element, element.origin) for element in reversed(agent.memory("*")))
    return next(element for element, origin in origins if origin and origin.run == run and origin.call)
