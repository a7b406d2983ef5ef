"""Migration of a run of an automaton: it continues with another version, from where it is.

The states that the run has reached are looked up in the new version by name. A running state must do the same
there. A state that has ended must lead, by its label, to the same states as before. Otherwise the run would
be in a state that no run of the new version can reach.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from narval.core.engines.events import Migrated
from narval.core.engines.run_state import Migration, MovedPart, NoPlace, copied, misnamed, renamed
from narval.kinds.automaton.engine.changes import AutomatonMigrated
from narval.kinds.automaton.engine.decision import AutomatonDecision
from narval.kinds.automaton.engine.running import let_go
from narval.kinds.automaton.engine.state import AutomatonState, StateRun
from narval.kinds.automaton.language.definition import ANY, END, SIGNAL, Automaton, State

_UNDER_WAY = {
    "running": {"contenders": "its commands", "target": "what it calls", "agent": "the agent that it calls"},
    "held": {"after": "its dates", "wait": "the signal that it waits for"},
}
"""The fields of a state that must not change while it is running, with words for them."""


def migrated(old: Automaton, new: Automaton, state: AutomatonState, names: Mapping[str, str]) -> Migration:
    """Move a run to another version of its automaton; `names` maps renamed states."""
    if state.status != "running":
        why = f"the run is {state.status}: one that has not begun, or is about to end, is not migrated"
        return Migration(state, refused=(NoPlace("", why, old.line, True),))
    if faults := misnamed(names, old.states, new.states):
        return Migration(state, refused=tuple(faults))
    places = renamed(names, old.states, new.states)
    after = _moved(new, state, places)
    refused = [*_refused(old, new, state, places), *_satisfied(new, state, after, places)]
    reached = [name for name in state.states if name in places]
    return Migration(
        after,
        tuple(MovedPart(name, places[name], state.states[name].state) for name in reached),
        tuple(name for name in state.states if name not in places),
        tuple(name for name in new.states if name not in places.values()),
        refused=tuple(refused),
    )


def follow_version(decision: AutomatonDecision, event: Migrated) -> None:
    """Continue with another version, which may have room for more programs."""
    after = msgspec.msgpack.decode(event.state, type=AutomatonState)
    decision.change(AutomatonMigrated(version=event.version, state=after))
    let_go(decision)


def _moved(new: Automaton, state: AutomatonState, places: Mapping[str, str]) -> AutomatonState:
    """Translate the state of the run to the names of the new version, without removed states."""
    before: AutomatonState = copied(state)
    awaits = {one.name: one.awaits for one in new.states.values() if one.awaits}
    states: dict[str, StateRun] = {}
    for name, run in before.states.items():
        if (place := places.get(name)) is None:
            continue
        run.started = {places[one]: None for one in run.started if one in places}
        run.by = places.get(run.by, "")
        if run.missing is not None:
            lacks = {places.get(one, "") for one in run.missing}
            credited = {places.get(one, "") for one in before.awaits.get(name, ())} - lacks
            run.missing = {one: None for one in awaits.get(place, ()) if one not in credited}
        states[place] = run
    return replace(
        before,
        awaits=awaits,
        states=states,
        calls={call: places.get(name, name) for call, name in before.calls.items()},
        dying={call: places.get(name, name) for call, name in before.dying.items()},
        held={places.get(name, name): None for name in before.held},
        queue={places.get(name, name): None for name in before.queue},
        finals=tuple(places.get(name, name) for name in before.finals),
    )


def _refused(
    old: Automaton, new: Automaton, state: AutomatonState, places: Mapping[str, str]
) -> Iterator[NoPlace]:
    """The states that have no place in the new version."""
    for name, run in state.states.items():
        before, place = old.states[name], places.get(name)
        if place is None:
            if run.state in _UNDER_WAY or run.state == "ready" or name in state.finals:
                is_what = "ended a branch of the run" if name in state.finals else f"is {run.state}"
                why = f"state {name} {is_what}, and the new version has no such state"
                yield NoPlace(name, why, before.line, True)
            continue
        then = new.states[place]
        for field, words in _UNDER_WAY.get(run.state, {}).items():
            if getattr(before, field) != getattr(then, field):
                why = f"state {place} is {run.state}, and {words} has changed; wait until it ends"
                yield NoPlace(place, why, then.line)
        if name in state.finals and (place == END or not then.is_final):
            why = "ends the whole run now" if place == END else "is no end of it now"
            yield NoPlace(place, f"state {place} has ended a branch of the run, and {why}", then.line)
        if run.state in ("done", "erred") and _ways(before, run, places) != _ways(then, run, None):
            how = f"ended with {run.label}" if run.label else "was skipped"
            yield NoPlace(place, f"state {place} has {how}, and leads elsewhere from there now", then.line)


def _ways(state: State, run: StateRun, places: Mapping[str, str] | None) -> dict[str, set[str]]:
    """The states that follow a state, by each label with which it may have ended."""
    return {
        label: {one.name if places is None else places.get(one.name, "") for one in state.follow[label]}
        for label in (run.label or "0", SIGNAL, ANY)
        if label in state.follow
    }


def _satisfied(
    new: Automaton, state: AutomatonState, after: AutomatonState, places: Mapping[str, str]
) -> Iterator[NoPlace]:
    """The states whose needs are all met in the new version, but which have not started."""
    origins = {place: name for name, place in places.items()}
    for name, run in after.states.items():
        lacked = state.missing(origins[name])
        if run.state == "idle" and run.missing is not None and not run.missing and lacked:
            why = f"state {name} waits for {', '.join(lacked)}, and needs none of that now"
            yield NoPlace(name, why, new.states[name].line)
