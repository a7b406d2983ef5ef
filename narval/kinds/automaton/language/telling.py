"""Descriptions of automata: their states in order, and what they run."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import join

from narval.core.definitions.library import Library
from narval.core.definitions.telling.calls import after_a_crash, call, forgotten, limits, target_of
from narval.core.definitions.telling.dates import dates
from narval.core.definitions.telling.patterns import element_phrase
from narval.core.definitions.telling.sentence import (
    Sentence,
    counted,
    length,
    listed,
    names,
    quoted,
    times,
    verbatim,
)
from narval.kinds.automaton.language import definition


def sentences(automaton: definition.Automaton, library: Library) -> Iterator[Sentence]:
    """The sentences that describe an automaton."""
    yield from (Sentence(text, automaton.line) for text in _whole(automaton))
    for state in _in_order(automaton):
        yield Sentence(f"{quoted(state.name)} {_does(state, library)}.", state.line)
        yield from (Sentence(text, state.line, depth=1) for text in _details(state))
        yield from (Sentence(text, state.line, depth=1) for text in _ways(state))
    if programs := dict.fromkeys(automaton.programs):
        text = f"Outside the home it runs the programs {listed(map(verbatim, programs))}."
        yield Sentence(text, automaton.line)


def _whole(automaton: definition.Automaton) -> Iterator[str]:
    begins = "It begins when a person or a program starts it."
    again = "It begins when it is started. When a run of it has ended, well or not, another begins."
    yield again if automaton.restart else begins
    yield from forgotten(automaton.decay)
    if automaton.timeout is not None:
        yield f"After {length(automaton.timeout)} a run is given up: it has failed."
    if automaton.max_parallel is not None:
        yield f"Of its programs, at most {automaton.max_parallel} run at once."
    if automaton.processes is not None:
        yield f"With all that they start they may be {automaton.processes:,} processes at once."


def _in_order(automaton: definition.Automaton) -> Iterator[definition.State]:
    """The states in order, beginning with the first, which leads to all others."""
    line, seen = [automaton.start], {automaton.start.name}
    for state in line:
        yield state
        for successors in state.follow.values():
            for successor in successors:
                if successor.name not in seen:
                    seen.add(successor.name)
                    line.append(successor)


# --- a state ----------------------------------------------------------------------------------------------


def _does(state: definition.State, library: Library) -> str:
    if state.target is not None:
        return call(*state.target, state.agent, target_of(*state.target, state.agent, library))
    if not state.contenders:
        return "runs nothing"
    if len(state.contenders) == 1:
        return f"runs {_program(state.contenders[0])}"
    return "runs the first of several programs that succeeds"


def _program(contender: definition.Contender) -> str:
    with_input = f", with the input {verbatim(contender.text)}" if contender.text.strip() else ""
    return f"the program {verbatim(join(contender.words))}{with_input}"


def _details(state: definition.State) -> Iterator[str]:
    if len(state.awaits) > 1:
        yield f"It begins once {names(state.awaits)} have all ended well."
    if state.after:
        yield f"It waits for its time: {dates(state.after)}."
    if state.wait:
        yield f"It waits for the signal {quoted(state.wait)}."
    for number, contender in enumerate(state.contenders if len(state.contenders) > 1 else ()):
        yield f"{'First' if not number else 'If that fails,'} {_program(contender)}."
        yield from _tried(contender)
    if len(state.contenders) == 1:
        yield from _tried(state.contenders[0])
    if state.creates:
        made = listed(map(verbatim, state.creates))
        newer = f", and newer than {listed(map(verbatim, state.needs))}" if state.needs else ""
        yield f"It makes {made}: it is skipped while all is there{newer}."
    elif state.needs:
        yield f"It needs {listed(map(verbatim, state.needs))}."
    if state.unless:
        yield f"It is skipped if {verbatim(join(state.unless))} ends well."
    yield from limits(state.timeout, state.retries, state.backoff, agent=state.agent)
    yield from after_a_crash(state.on_restart)
    if state.max_visits is not None:
        yield f"A run enters it {times(state.max_visits)} at most; once more, and the run has failed."
    yield from _surroundings(state)


def _tried(contender: definition.Contender) -> Iterator[str]:
    if contender.retries or contender.backoff is not None:
        yield from (f"Of this program: {text}" for text in limits(None, contender.retries, contender.backoff))


def _surroundings(state: definition.State) -> Iterator[str]:
    """The sentences about the inputs and limits of its programs."""
    if not state.contenders:
        return
    if state.grace != definition.State("").grace:
        yield f"A program that is to end has {length(state.grace)} to do so; then it is killed."
    if state.directory:
        yield f"It runs in the folder {verbatim(state.directory)}."
    if state.reaches is not None:
        reached = ", ".join(f"{name.removesuffix('s')} {value}" for name, value in state.reaches.all)
        yield f"It can reach {reached or 'nothing'}, besides its own file, where the system confines it."
    for name, value in state.environment.items():
        yield f"The variable {verbatim(name)} is {quoted(value)}."
    yield from map(_input, state.inputs)
    most = state.limits
    uses = [
        *([f"{counted(most.cpu, 'second')} of the processor"] if most.cpu is not None else []),
        *([f"{counted(most.memory, 'byte')} of memory"] if most.memory is not None else []),
        *([f"{counted(most.files, 'open file')}"] if most.files is not None else []),
        *([f"{most.processes:,} processes at once"] if most.processes is not None else []),
    ]
    if uses:
        yield f"It may use at most {listed(uses)}."


def _input(program_input: definition.ProgramInput) -> str:
    phrase = element_phrase(program_input.condition)
    if not program_input.name:
        return f"Its input is all that this run has of what is {phrase}."
    value = "the text" if program_input.select == "string(.)" else verbatim(program_input.select)
    return f"The variable {verbatim(program_input.name)} is {value} of the newest that is {phrase}."


def _ways(state: definition.State) -> Iterator[str]:
    """The sentences about what follows a state, by how it ends."""
    for label, successors in state.follow.items():
        follows = f"{names(successor.name for successor in successors)} follow"
        is_all = label == definition.ANY and len(state.follow) == 1 and not state.is_final
        ended = "However it ends" if is_all else _ended(label)
        yield f"{ended}, {follows}{'s' if len(successors) == 1 else ''}."
    if state.is_final:
        yield "When it has ended well, the run has ended well" + (
            " at once." if state.name == definition.END else "."
        )
    if definition.ANY not in state.follow:
        yield (
            "Of any other end the run fails." if state.follow else "Of an end that is not well the run fails."
        )


def _ended(label: str) -> str:
    if signal := definition.signal_of(label):
        return f"When the signal {quoted(signal)} comes meanwhile"
    ends = {
        definition.SUCCESS: "When it has ended well",
        definition.TIMEOUT: "When it took too long",
        definition.SIGNAL: "When a signal of the system has ended it",
        definition.ANY: "When it has ended in any other way",
    }
    return ends.get(label, f"When it has ended with {label}")
