"""Any automaton follows the algorithm of section 4, written out naively (A3-A5, A14).

The order of successors does not matter: what is left of all is killed before one starts. Room for programs is
one or plenty, as a successor that waits for a killed program lets others take room before it.
"""

from __future__ import annotations

from random import Random

from narval.core.definitions.parsing import parse
from narval.core.source.text import Source
from tests.kinds.automaton.engine.programs import Programs

NAMES = ("start", "a", "b", "c", "end")
Ways = list[tuple[str, str, str]]


class Section4:
    """The sets of section 4 for each state: what it waits for (W), and what it has started (V)."""

    def __init__(self, ways: Ways, room: int) -> None:
        self.ways, self.room = ways, room
        names = dict.fromkeys(name for before, _, after in ways for name in (before, after))
        self.awaits = {
            name: {one for one, label, other in ways if (label, other) == ("0", name)} for name in names
        }
        self.missing = {name: set(awaited) for name, awaited in self.awaits.items()}
        self.started: dict[str, set[str]] = {name: set() for name in names}
        self.running: set[str] = set()
        self.queue = ["start"]
        self.outcome, self.is_final_reached = "", False
        self.fill()

    def ends(self, state: str, label: str) -> None:
        """The program of a state ends with a status."""
        self.running.remove(state)
        own = [way for way in self.ways if way[0] == state]
        exact = [other for _, how, other in own if how == label]
        successors = exact or [other for _, how, other in own if how == "*"]
        if (state, label) == ("end", "0"):
            self.outcome = "done"
        elif not successors and (own or label != "0"):
            self.outcome = "failed"
        self.is_final_reached |= not own and label == "0"
        if exact and label == "0":
            for successor in successors:
                self.missing[successor].discard(state)
            successors = [successor for successor in successors if not self.missing[successor]]
        successors.sort(key=lambda successor: successor != state)
        killed = [self.reached(successor, set()) for successor in successors]
        for name in set().union(*killed):
            self.kill(name)
        for successor, names in zip(successors, killed, strict=True):
            if state not in names:
                for started in self.started.values():  # the last that started it owns it
                    started.discard(successor)
                self.started[state].add(successor)
            self.missing[successor] = set(self.awaits[successor])
            self.queue.append(successor)
        self.fill()

    def reached(self, state: str, names: set[str]) -> set[str]:
        """A state and what it has started, directly or not."""
        if state not in names:
            names.add(state)
            for other in self.started[state]:
                self.reached(other, names)
        return names

    def kill(self, state: str) -> None:
        """Kill a state: as if it had never run."""
        self.missing[state], self.started[state] = set(self.awaits[state]), set()
        for name, awaited in self.awaits.items():
            self.missing[name] |= awaited & {state}
        self.running.discard(state)
        self.queue = [name for name in self.queue if name != state]

    def fill(self) -> None:
        """Start what is ready, as far as there is room; without anything left, the run ends."""
        if self.outcome:
            self.running, self.queue = set(), []
        while self.queue and len(self.running) < self.room:
            self.running.add(self.queue.pop(0))
        if not self.running and not self.outcome:
            self.outcome = "done" if self.is_final_reached else "failed"


def automaton(chance: Random) -> tuple[Ways, int]:
    """Ways between states, and how many programs may run at once."""
    names = NAMES[: chance.randint(2, 5)]
    ways = [(chance.choice(names[:at]), chance.choice("0001"), name) for at, name in enumerate(names) if at]
    for _ in range(chance.randint(1, 7)):
        ways.append((chance.choice(names), chance.choice("000112*"), chance.choice(names)))
    return list(dict.fromkeys(ways)), chance.choice((1, 9))


def test_any_automaton_runs_as_section_4_says() -> None:
    chance, compared = Random(51), 0
    for _ in range(200):
        ways, room = automaton(chance)
        names = dict.fromkeys(name for before, _, after in ways for name in (before, after))
        inside = "".join(f'<state name="{name}" command="x"/>' for name in names)
        inside += "".join(
            f'<transition from="{one}" label="{how}" to="{other}"/>' for one, how, other in ways
        )
        limit = f'max-parallel="{room}"'
        if parse(Source("a.xml", f"<automaton {limit}>{inside}</automaton>".encode())).faults:
            continue
        said, reference = Programs(inside, attributes=limit), Section4(ways, room)
        for _ in range(12):
            if reference.outcome:
                break
            state, label = chance.choice(sorted(reference.running)), chance.choice((0, 0, 0, 1, 2, 3))
            said.passes(60)  # so that none dies quickly
            said.ends(state, label)
            reference.ends(state, str(label))
            for call in list(said.states[said.run].dying):
                said.answer(said.calls[call][1], abandoned=True)
            assert said.running == reference.running, ways
        assert said.told == (reference.outcome or "running"), ways
        compared += 1
    assert compared > 60
