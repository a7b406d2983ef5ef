"""The flow of automata: everything that a run holds may reach its programs, and whatever it calls."""

from __future__ import annotations

from collections.abc import Iterator

from narval.core.definitions.library import Library
from narval.core.trust.flow import CallFlow, Flow, InMemory, coarse_call, program_call
from narval.core.trust.parts import STANDARD_INPUT
from narval.kinds.automaton.language.definition import Automaton


def flow(automaton: Automaton, library: Library) -> Flow:
    """The flow of elements through an automaton."""
    return Flow(tuple(_calls(automaton, library)))


def _calls(automaton: Automaton, library: Library) -> Iterator[CallFlow]:
    for state in automaton.states.values():
        inputs = {feed.name or STANDARD_INPUT: InMemory(feed.condition) for feed in state.inputs}
        words = [contender.words[0] for contender in state.contenders]
        for name in dict.fromkeys((*words, *state.unless[:1])):
            yield program_call(state.name, name, state.line, inputs, values=bool(state.environment))
        if state.target is not None:
            yield from coarse_call(state.name, *state.target, library, line=state.line, agent=state.agent)
