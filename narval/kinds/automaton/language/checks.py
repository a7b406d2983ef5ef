"""Checks of the graph of an automaton before it runs (A11): states that cannot start, and joins that are
never met.

A state can start if a label other than 0 leads to it from a state that can start. It can also start if every
state that leads to it by 0 can end with 0, because it waits for each of them. No other state can start.

A state that is started at most once ends with only one label. So a join is never met if every path to what it
waits for needs two different labels of such a state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from narval.core.definitions.library import Library
from narval.core.definitions.reading.walks import cycles, reached
from narval.core.errors import Fault
from narval.kinds.automaton.language.definition import ANY, START, SUCCESS, Automaton, State, signal_of

Ends = frozenset[tuple[str, str]]
"""States that have ended, each with the label that led on."""


def ways_to_start(states: Mapping[str, State]) -> dict[str, list[Ends]]:
    """The ways to start each state: by its join, or from another state by a label other than 0."""
    ways: dict[str, list[Ends]] = {name: [] for name in states}
    for name, state in states.items():
        if state.awaits:
            ways[name].append(frozenset((awaited, SUCCESS) for awaited in state.awaits))
        for label, successors in state.follow.items():
            for successor in successors if label != SUCCESS else ():
                ways[successor.name].append(frozenset({(name, label)}))
    return ways


def startable(states: Mapping[str, State], unmet: Mapping[str, str]) -> set[str]:
    """The names of the states that can start; the joins of `unmet` are never met."""
    edges = [
        ([before for before, _ in way], [name])
        for name, ways in ways_to_start(states).items()
        for way in ways
        if not (name in unmet and _is_join(way))
    ]
    return reached([START] if START in states else [], edges)


def unmet_joins(states: Mapping[str, State]) -> dict[str, str]:
    """The states whose join is never met, though each state it waits for may end with 0, with the reason."""
    ways, unmet = ways_to_start(states), dict[str, str]()
    first = [START] if not ways.get(START) else []
    single = [([before for before, _ in way[0]], [name]) for name, way in ways.items() if len(way) == 1]
    choices = {name for name in reached(first, single) if len(states[name].follow) > 1} if states else set()
    while choices:
        needed = _needed(ways, choices)
        found = {
            name: (way, clash)
            for name in states
            for way in ways[name]
            if _is_join(way) and (clash := _clash(_needed_by(way, needed, choices)))
            if not any(_clash(needed[before]) for before, _ in way)  # otherwise that join is reported
        }
        for name, (way, (state, labels)) in found.items():
            ways[name].remove(way)
            both = " and ".join(f"{label!r}" for label in labels)
            unmet[name] = f"{state!r}, which starts once, would have to end with {both}"
        if not found:
            break
    return unmet


def _is_join(way: Ends) -> bool:
    return all(label == SUCCESS for _, label in way)


def _needed(ways: Mapping[str, list[Ends]], choices: set[str]) -> dict[str, Ends]:
    """The ends of `choices` that must precede each state that can start, on every path to it."""
    after: dict[str, set[str]] = {name: set() for name in ways}
    for name, led in ways.items():
        for before, _ in frozenset[tuple[str, str]]().union(*led):
            after[before].add(name)
    needed: dict[str, Ends] = {START: frozenset()}
    pending = [*after.get(START, ())]
    while pending:
        name = pending.pop()
        sums = [count for way in ways[name] if (count := _needed_by(way, needed, choices)) is not None]
        if not sums or name == START:
            continue
        least = frozenset.intersection(*sums)
        if needed.get(name) != least:
            needed[name] = least
            pending += after[name]
    return needed


def _needed_by(way: Ends, needed: Mapping[str, Ends], choices: set[str]) -> Ends | None:
    """The ends that must precede a state on one path; None while part of the path is not known to start."""
    if any(before not in needed for before, _ in way):
        return None
    own = frozenset(end for end in way if end[0] in choices)
    return own.union(*(needed[before] for before, _ in way))


def _clash(ends: Ends | None) -> tuple[str, list[str]] | None:
    """A state that would have to end with several labels, and those labels; None if there is none."""
    labels: dict[str, list[str]] = {}
    for state, label in sorted(ends or ()):
        labels.setdefault(state, []).append(label)
    return next(((state, names) for state, names in labels.items() if len(names) > 1), None)


def never_started(states: Mapping[str, State]) -> Iterator[tuple[State, str]]:
    """The states that cannot start, and why: nothing leads to them, or a join waits for a state that comes
    after it.
    """
    unmet = unmet_joins(states)
    started = startable(states, unmet)
    for state in states.values():
        if state.name in started:
            continue
        there = [awaited for awaited in state.awaits if awaited in started]
        missing = [awaited for awaited in state.awaits if awaited not in started]
        never = f"state {state.name!r} can never start"
        if state.name in unmet:
            awaited = _all(state.awaits)
            yield state, f"{never}: it waits for 0 of {awaited}, and for that {unmet[state.name]}"
        elif there:
            both = f"it waits for 0 of {_all(there)} and of {_all(missing)} too"
            yield state, f"{never}: {both}, which cannot start before it"
        elif missing:
            yield state, f"{never}: only {_all(missing)} leads there, which cannot start"
        else:
            yield state, f"{never}: no transition leads to it from {START!r}"


def warnings(automata: Iterable[Automaton], _: Library) -> list[Fault]:
    """Warnings about the states of automata: valid, but perhaps not intended."""
    return [
        Fault(automaton.path, line, 1, message, warning=True)
        for automaton in automata
        for check in (_hopeless, _failing, _endless, _unmet)
        for line, message in check(automaton)
    ]


def _hopeless(automaton: Automaton) -> Iterator[tuple[int, str]]:
    """The states from which the run cannot end well."""
    final = [state for state in automaton.states.values() if state.is_final]
    if not final:
        return  # it goes round, which `_endless` judges
    ways = [([after], [state.name]) for state in automaton.states.values() for after in _followers(state)]
    hopeful = reached([state.name for state in final], ways)
    for state in automaton.states.values():
        if state.name not in hopeful:
            yield state.line, f"no final state can be reached from {state.name!r}"


def _unmet(automaton: Automaton) -> Iterator[tuple[int, str]]:
    """The joins that are never met, of states that can also start in another way."""
    for name, why in unmet_joins(automaton.states).items():
        state = automaton.states[name]
        awaited = _all(state.awaits)
        yield state.line, f"{name!r} never starts by its join, 0 of {awaited}: for that {why}"


def _failing(automaton: Automaton) -> Iterator[tuple[int, str]]:
    """The states that lead on, but not by 0."""
    for state in automaton.states.values():
        if not state.is_final and state.label(SUCCESS) is None:
            without = f"state {state.name!r} has transitions, but none for 0"
            yield state.line, f"{without}: a run that comes there with 0 fails"


def _endless(automaton: Automaton) -> Iterator[tuple[int, str]]:
    """Cycles without a limit. If each state leads on however it ends, the run is meant to go on until it is
    stopped.
    """
    states = automaton.states
    if all(ANY in state.follow for state in states.values()):
        return
    after = {
        name: [(successor, None) for successor in _followers(state, False)] for name, state in states.items()
    }
    for names, _ in cycles(after):
        cycle = [states[name] for name in names]
        if all(state.max_visits is None and not state.after and not state.wait for state in cycle):
            path = " → ".join([*names, names[0]])
            message = f"{path} may go round for ever; max-visits on one of them sets a limit"
            yield cycle[0].line, message


def _followers(state: State, by_signals: bool = True) -> Iterable[str]:
    """The names of a state's successors, each once; with `by_signals`, also those behind signals."""
    follow = (ones for label, ones in state.follow.items() if by_signals or not signal_of(label))
    return dict.fromkeys(successor.name for successors in follow for successor in successors)


def _all(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
