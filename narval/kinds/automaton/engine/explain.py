"""A run of an automaton for people: its element (N2), waits and parts, and the reasons for their state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from lxml import etree

from narval.core.definitions.schedule import text_of
from narval.core.elements.own_elements import xml_safe
from narval.core.engines.commands import Watch
from narval.core.engines.engine import Deaths, Wait
from narval.core.engines.graph import clipped
from narval.core.engines.run_state import element_of, finished
from narval.core.engines.story import Fact, Story
from narval.kinds.automaton.engine.state import SEVERAL, STEADY, TIMED, AutomatonState, StateRun
from narval.kinds.automaton.language.definition import SUCCESS, Automaton, State, signal_of

LONGEST_SAID = 160
"""The most characters of the last line of a program's output in a sentence."""


def render(definition: Automaton, state: AutomatonState, context: Iterable[int]) -> bytes:
    """The `automaton` element: states with their progress, transitions, the context by reference."""
    root = element_of("automaton", definition, state, "parent_plan")
    for part in definition.states.values():
        _render_state(root, part, state)
    for part in definition.states.values():
        for label, successors in part.follow.items():
            for successor in successors:
                signal = signal_of(label)
                how = ("signal", signal) if signal else ("label", label)
                etree.SubElement(root, "transition", dict([("from", part.name), how, ("to", successor.name)]))
    return finished(root, context)


def _render_state(root: etree._Element, part: State, state: AutomatonState) -> None:
    run = state.of(part.name)
    node = etree.SubElement(root, "state", name=part.name, state=run.state, visits=str(run.visits))
    if run.label:
        node.set("label", run.label)
    if run.skipped:
        node.set("skipped", "yes")
    if run.output:
        etree.SubElement(node, "output").text = xml_safe(run.output)


def waiting_for(definition: Automaton, state: AutomatonState, watches: dict[str, Watch]) -> Iterator[Wait]:
    """The present waits of the run: programs, dates, signals, room, its time limit, and joins."""
    for call, name in state.calls.items():
        run = state.of(name)
        text = _called(definition.states[name], state) + (", to be gone" if run.interrupted else "")
        yield Wait(name, "call", text, calls=(call,), deaths=_deaths(run))
    for call, name in state.dying.items():
        yield Wait(name, "call", "a program that was killed, to be gone", calls=(call,))
    for name in state.held:
        until, part = state.of(name).until, definition.states[name]
        what, text = _held(definition, state, part)
        if what == "time":
            yield Wait(name, what, until=until, reckoned=text_of(part.after))
        else:
            yield Wait(name, what, text, until=until)
    if state.until is not None:
        yield Wait(definition.full_name, "limit", until=state.until)
    for name in definition.states:
        missing = state.missing(name)
        if 0 < len(missing) < len(state.awaits.get(name, ())):
            yield Wait(name, "join", f"0 of {', '.join(missing)}")


_HELD = {
    "programs": ("call", "what was killed for it, to be gone"),
    "date": ("time", "its date"),
    "signal": ("signal", "{signal}"),
    "quick": ("try", "another start: it died too quickly, several times in a row"),
    "back-off": ("try", "another attempt: all its commands have failed"),
    "room": ("call", "room: {most} programs run at once"),
}


def _held(definition: Automaton, state: AutomatonState, part: State) -> tuple[str, str]:
    """The wait of a held state, as a word and for people."""
    run = state.of(part.name)
    what, text = _HELD[run.hold]
    if run.hold == "back-off" and run.tries:
        text = "another attempt: {command} has failed {tries} time" + "s" * (run.tries > 1)
    names = {"signal": part.wait, "most": definition.max_parallel, "tries": run.tries}
    text = text.format(command=_called(part, state), **names)
    return what, text + _last_end(run) if what == "try" else text


def _last_end(run: StateRun) -> str:
    """A clause on how a state's last program failed, and its last output line; "" if another failed."""
    if run.label in ("", SUCCESS):
        return ""
    said = last_line(run.output)
    return f"; it ended with {run.label}" + (f", and said last: “{said}”" if said else "")


def _deaths(run: StateRun) -> Deaths | None:
    """The deaths of a state that died several times in a row."""
    if run.deaths < SEVERAL:
        return None
    until = run.last_death + STEADY
    return Deaths(run.deaths, run.first_death, run.last_death, until, _last_end(run).removeprefix("; "))


def _called(target: State, state: AutomatonState) -> str:
    if target.target is not None:
        return target.called
    return " ".join(target.contenders[state.of(target.name).fallback].words)


def parts(definition: Automaton, state: AutomatonState) -> dict[str, list[dict[str, Any]]]:
    """The states as surfaces show them, each with its successors."""
    return {"states": [_part(part, state) for part in definition.states.values()]}


def _part(part: State, state: AutomatonState) -> dict[str, Any]:
    run = state.of(part.name)
    return {
        "id": part.name,
        "state": run.state if not run.hold else f"held: {run.hold}",
        "target": _called(part, state),
        "calls": [run.call] if run.call else [],
        "visits": run.visits,
        "label": run.label,
        "skipped": run.skipped,
        "output": run.output,
        "since": run.stood or None,
        "succeeded": run.succeeded or None,
        "seconds": {state: round(run.spent.get(state, 0.0), 3) for state in TIMED},
        "follow": {label: [one.name for one in ones] for label, ones in part.follow.items()},
    }


def last_line(output: str) -> str:
    """The last line of a program's output, truncated if it is long."""
    return clipped(output.strip().rpartition("\n")[2], LONGEST_SAID)


def explain(definition: Automaton, state: AutomatonState, identifier: str | None) -> str | None:
    """The reason for the state of a state, or of the run if no name is given; None if there is none."""
    if identifier is None:
        return _reason_of_run(state)
    part = definition.states.get(identifier)
    return None if part is None else _reason_of_state(definition, state, part)


def _reason_of_run(state: AutomatonState) -> str | None:
    if state.status == "done":
        return f"it reached {', '.join(state.finals)}"
    erred = [name for name, run in state.states.items() if run.state == "erred"]
    if state.status == "failed" and erred:
        return "; ".join(f"{name} ended with {state.of(name).label}" for name in erred)
    return None


def _reason_of_state(definition: Automaton, state: AutomatonState, part: State) -> str:
    run = state.of(part.name)
    if run.interrupted:
        ending = "; what runs of it is being ended" if run.state == "running" else ""
        return f"it was interrupted by {run.interrupted}{ending}"
    if run.state == "running":
        return f"{_called(part, state)} runs, in visit {run.visits}"
    if run.state == "held":
        what, text = _held(definition, state, part)
        return f"it waits for {text} ({what})"
    if run.skipped:
        return "it was up to date, so its command was not run"
    if run.label:
        return f"it ended with {run.label}" + (f"; {run.by} had started it" if run.by else "")
    missing = state.missing(part.name)
    if missing:
        return f"it waits for 0 of {', '.join(missing)}"
    return "nothing has led to it yet"


part_word = "state"

story: Story = {
    "RunLate": Fact("The run has had its time."),
    "StateReady": Fact("It is entered[, after {by}].", begins=True, part="state"),
    "StateHeld": Fact("It waits ({hold})[ until {until:moment}].", part="state"),
    "StateSkipped": Fact("It is up to date: nothing is done.", part="state"),
    "CallLate": Fact("Its time limit is over.", part="call"),
    "StateInterrupted": Fact("A signal interrupts it, and it ends with {label}.", part="state"),
    "CallFailed": Fact("It did not succeed ({label}), and is tried again.", part="call"),
    "StateEnded": Fact("It ends with {label}.", part="state"),
    "StatesKilled": Fact("State {states} is stopped."),
    "SignalHeard": Fact("Signal {name} came, and no state waits for it yet."),
    "SignalTaken": Fact("Signal {name} lets it go on.", part="state"),
    "FinalReached": Fact("Nothing follows it.", part="state"),
}
"""The changes of interest to people, in sentences."""
