"""Checks of the graph of an automaton before it runs (A11): states and joins that never come to anything.

A state can start when some label but 0 leads to it from a state that can, or when all the states that lead to
it by 0 can end so: it waits for each of them. The states that cannot start are those left over when all have
started that can.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from narval.definitions.automaton.definition import START, SUCCESS, Automaton, State
from narval.definitions.library import Library
from narval.definitions.reading.walks import cycles, reached
from narval.errors import Fault


def startable(states: Mapping[str, State]) -> set[str]:
    """The names of the states that some course of events starts."""
    joins = [([awaited.name for awaited in state.awaits], [name]) for name, state in states.items()]
    others = [
        ([name], [successor.name for successor in successors])
        for name, state in states.items()
        for label, successors in state.follow.items()
        if label != SUCCESS
    ]
    return reached([START] if START in states else [], [*(join for join in joins if join[0]), *others])


def never_started(states: Mapping[str, State]) -> Iterator[tuple[State, str]]:
    """The states that cannot start, and why: nothing leads there, or a join lacks one that comes after it."""
    found = startable(states)
    for state in states.values():
        if state.name in found:
            continue
        there = [awaited.name for awaited in state.awaits if awaited.name in found]
        missing = [awaited.name for awaited in state.awaits if awaited.name not in found]
        never = f"state {state.name!r} can never start"
        if there:
            both = f"it waits for 0 of {_all(there)} and of {_all(missing)} too"
            yield state, f"{never}: {both}, which cannot start before it"
        elif missing:
            yield state, f"{never}: only {_all(missing)} leads there, which cannot start"
        else:
            yield state, f"{never}: no transition leads to it from {START!r}"


def warnings(automata: Iterable[Automaton], _: Library) -> list[Fault]:
    """Warnings about the states of automata: what is allowed and may not be meant."""
    return [
        Fault(automaton.path, line, 1, message, warning=True)
        for automaton in automata
        for check in (_hopeless, _failing, _endless)
        for line, message in check(automaton)
    ]


def _hopeless(automaton: Automaton) -> Iterator[tuple[int, str]]:
    """States from which none can be reached that ends the run well."""
    final = [state for state in automaton.states.values() if state.is_final]
    if not final:
        return  # it is meant to go on until it is stopped
    ways = [([after], [state.name]) for state in automaton.states.values() for after in _followers(state)]
    hopeful = reached([state.name for state in final], ways)
    for state in automaton.states.values():
        if state.name not in hopeful:
            yield state.line, f"no final state can be reached from {state.name!r}"


def _failing(automaton: Automaton) -> Iterator[tuple[int, str]]:
    """States that lead on, but not by 0."""
    for state in automaton.states.values():
        if not state.is_final and state.label(SUCCESS) is None:
            without = f"state {state.name!r} has transitions, but none for 0"
            yield state.line, f"{without}: a run that comes there with 0 fails"


def _endless(automaton: Automaton) -> Iterator[tuple[int, str]]:
    """Cycles in which nothing limits how often they are gone round (A7), where there is an end at all."""
    if not any(state.is_final for state in automaton.states.values()):
        return
    states = automaton.states
    after = {name: [(successor, None) for successor in _followers(state)] for name, state in states.items()}
    for names, _ in cycles(after):
        cycle = [states[name] for name in names]
        if all(state.max_visits is None and not state.after and not state.wait for state in cycle):
            shown = " → ".join([*names, names[0]])
            message = f"{shown} may go round for ever; max-visits on one of them sets a limit"
            yield cycle[0].line, message


def _followers(state: State) -> Iterable[str]:
    """The names of the states that follow one, each once."""
    return dict.fromkeys(successor.name for successors in state.follow.values() for successor in successors)


def _all(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
