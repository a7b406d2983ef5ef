"""Plays as they were recorded, for where AgentDojo is not installed.

    python -m bench.agentdojo --record FILE …

A line of the file is one play: what began it, each call of a tool with what it gave, and what came of it.
Played from there, a recipe must make the same calls, ask the same questions and say the same. What AgentDojo
judges of that is recorded too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.agentdojo.play import Played, World

Play = Mapping[str, Any]


class RecordingWorld(World):
    """The environments of AgentDojo; what its tools give is kept until the next task begins."""

    def begin(self, suite: str, task: str, injection: str | None) -> Any:
        """Put up the environment of a task."""
        self.given: list[tuple[str, Mapping[str, Any], Any]] = []
        self.begun = super().begin(suite, task, injection)
        return self.begun

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """What a tool gives. Raises ValueError with the words of its error."""
        given = super().call(name, arguments)
        self.given.append((name, arguments, given))
        return given

    def play(self, suite: str, task: str, kind: str, injection: str, played: Played) -> Play:
        """What was played last, as a line of the file has it."""
        return {
            "suite": suite,
            "task": task,
            "model": kind,
            "injection": injection,
            "begun": self.begun,
            "given": self.given,
            **outcome(played),
        }


class RecordedWorld:
    """One recorded play, as the environment in which it is played again."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.said: list[str] = []

    def begin(self, suite: str, task: str, injection: str | None) -> Any:
        """What began the play."""
        assert (suite, task, injection or "") == tuple(
            self._play[key] for key in ("suite", "task", "injection")
        )
        return self._play["begun"]

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """What the tool gave then. Raises ValueError for a call that was not made."""
        self.calls.append((name, arguments))
        for recorded, same, given in self._play["given"]:
            if (recorded, same) == (name, arguments):
                return given
        raise ValueError(f"{name} was not called so when this was recorded: {arguments}")

    def say(self, text: str) -> None:
        """Tell the user something."""
        self.said.append(text)

    def end(self) -> Any:
        """How AgentDojo judged it."""
        return {"solved": self._play["solved"], "attacked": self._play["attacked"]}


def outcome(played: Played) -> dict[str, Any]:
    """What came of a play, without the order of calls that are made at once."""
    return {
        "calls": sorted(([name, dict(arguments)] for name, arguments in played.calls), key=str),
        "asks": sorted(([ask.name, dict(ask.arguments), ask.agreed] for ask in played.asks), key=str),
        "said": played.said,
        "solved": played.solved,
        "attacked": played.attacked,
    }


def recorded(path: Path) -> Iterator[Play]:
    """The plays of a file."""
    for line in path.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)
