"""Dialogues with the engine of automata, in which calls are answered as programs are."""

from __future__ import annotations

from typing import Any

from narval.core.engines.commands import Answer
from narval.core.engines.engine import Wait
from narval.core.engines.events import OutputElement, Signalled
from tests.core.engines.dialogue import Dialogue


class Programs(Dialogue):
    """A dialogue in which the calls of states are answered as programs are."""

    def __init__(self, inside: str, *others: Any, attributes: str = "") -> None:
        super().__init__(f'<automaton group="g" name="a" {attributes}>{inside}</automaton>', *others)
        self.run = self.start("g.a", kind="automaton")

    def ends(self, state: str, status: int | str = 0, output: str = "") -> None:
        """The program of a state ends, by itself."""
        value: dict[str, Any] = {"status": status, "output": output}
        if status == "timeout":
            value = {"timeout": 1, "output": output}
        elif isinstance(status, str):
            value = {"signal": status, "output": output}
        (call,) = [command for command in self.calls_of(state) if command.call in self.states[self.run].calls]
        self.answer(call, value=value)

    def gone(self, *states: str) -> None:
        """What was killed of these states is gone."""
        for state in states:
            (call,) = [
                command for command in self.calls_of(state) if command.call in self.states[self.run].dying
            ]
            self.answer(call, abandoned=True)

    @property
    def running(self) -> set[str]:
        """The states whose programs run and are not being killed."""
        return set(self.states[self.run].calls.values())

    @property
    def states_of(self) -> dict[str, str]:
        """How each state stands."""
        return self._part(self.run, "states")

    @property
    def given_up(self) -> float | None:
        """The moment at which the run is given up, as `why` tells it."""
        return next((wait.until for wait in self.waits if wait.what == "limit"), None)

    @property
    def waits(self) -> list[Wait]:
        """What the run waits for."""
        return [*self.engines[self.run].waiting_for(self.definitions[self.run], self.states[self.run], {})]

    def why(self, state: str) -> str:
        """Why a state is as it is."""
        return str(self.engines[self.run].explain(self.definitions[self.run], self.states[self.run], state))

    @property
    def told(self) -> str:
        return self.state(self.run)


def signal(said: Programs, name: str, *xml: bytes) -> Answer:
    said.tell(said.run, Signalled(1000, said.now, "s1", name, tuple(map(OutputElement, xml))))
    (answer,) = said.wishes(Answer)
    return answer
