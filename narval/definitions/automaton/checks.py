"""Checks of the graph of an automaton before it runs (A11): states and joins that never come to anything.

A state can start when some label but 0 leads to it from a state that can, or when all the states that lead to
it by 0 can end so: it waits for each of them. The states that cannot start are those left over when all have
started that can.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from narval.definitions.automaton.definition import START, SUCCESS, Automaton, State
from narval.definitions.library import Library
from narval.errors import Fault


def startable(states: Mapping[str, State]) -> set[str]:
    """The names of the states that some course of events starts."""
    missing = {name: {awaited.name for awaited in state.awaits} for name, state in states.items()}
    found: set[str] = set()
    pending = [states[START]] if START in states else []
    while pending:
        state = pending.pop()
        if state.name in found:
            continue
        found.add(state.name)
        for label, successors in state.follow.items():
            for successor in successors:
                if label == SUCCESS:
                    missing[successor.name].discard(state.name)
                if label != SUCCESS or not missing[successor.name]:
                    pending.append(successor)
    return found


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
            yield (
                state,
                f"{never}: it waits for 0 of {_all(there)} and of {_all(missing)} too, which cannot start "
                "before it",
            )
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
    before: dict[str, list[State]] = {}
    for state in automaton.states.values():
        for successor in _followers(state):
            before.setdefault(successor.name, []).append(state)
    hopeful: set[str] = set()
    pending = list(final)
    while pending:
        state = pending.pop()
        if state.name not in hopeful:
            hopeful.add(state.name)
            pending.extend(before.get(state.name, ()))
    for state in automaton.states.values():
        if state.name not in hopeful:
            yield state.line, f"no final state can be reached from {state.name!r}"


def _failing(automaton: Automaton) -> Iterator[tuple[int, str]]:
    """States that lead on, but not by 0."""
    for state in automaton.states.values():
        if not state.is_final and state.label(SUCCESS) is None:
            yield (
                state.line,
                f"state {state.name!r} has transitions, but none for 0: a run that comes there with 0 fails",
            )


def _endless(automaton: Automaton) -> Iterator[tuple[int, str]]:
    """Cycles in which nothing limits how often they are gone round (A7), where there is an end at all."""
    if not any(state.is_final for state in automaton.states.values()):
        return
    for cycle in _cycles(automaton.states.values()):
        if all(state.max_visits is None and not state.after and not state.wait for state in cycle):
            names = " → ".join(state.name for state in (*cycle, cycle[0]))
            yield (
                cycle[0].line,
                f"{names} may go round for ever; max-visits on one of them sets a limit",
            )


def _cycles(states: Iterable[State]) -> Iterator[list[State]]:
    """The cycles, one for each edge that leads back in a walk depth first, which has a stack of its own."""
    done: set[str] = set()
    for root in states:
        if root.name in done:
            continue
        path: dict[str, State] = {root.name: root}
        stack = [_followers(root)]
        while stack:
            following = next(stack[-1], None)
            if following is None:
                stack.pop()
                name, _ = path.popitem()
                done.add(name)
            elif following.name in path:
                walked = list(path.values())
                yield walked[list(path).index(following.name) :]
            elif following.name not in done:
                path[following.name] = following
                stack.append(_followers(following))


def _followers(state: State) -> Iterator[State]:
    found = {successor.name: successor for successors in state.follow.values() for successor in successors}
    return iter(found.values())


def _all(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
