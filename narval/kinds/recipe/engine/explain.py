"""The reasons for the state of a plan, a step or a transition (N11)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from narval.core.engines.story import Fact, Story
from narval.kinds.recipe.engine.state import NOT_ENDED, PlanState, TransitionRun
from narval.kinds.recipe.language.definition import Recipe, Step, Transition

FOLLOWED = 4
"""The most transitions that are followed back to the choice that left a step out."""


def explain(definition: Recipe, state: PlanState, identifier: str | None) -> str | None:
    """The reason for the state of a step or transition, or of the plan if no id is given; None if there is
    none.
    """
    if identifier is None:
        return _reason_of_plan(definition, state)
    step = definition.steps.get(identifier)
    if step is not None:
        return reason_of_step(definition, state, step)
    transition = definition.transition_of(identifier)
    return _reason_of_transition(definition, state, transition) if transition is not None else None


def _reason_of_plan(definition: Recipe, state: PlanState) -> str | None:
    if state.status in ("done", "end"):
        going_on = ", ".join(dict.fromkeys(state.calls.values()))
        return _ended_well(definition, state) + (f"; still running: {going_on}" if going_on else "")
    unhandled = [_unhandled(state, definition.steps[step]) for step in state.in_error]
    return "; ".join(unhandled) if unhandled and state.status in ("failed-end", "failed") else None


def _ended_well(definition: Recipe, state: PlanState) -> str:
    """The reason why the plan ended well: it reached its end step, or a date was given up and nothing was
    left.
    """
    if state.step(definition.end.id).state in ("done", "history"):
        return f"step {definition.end.id} was reached"
    given_up = [name for name, transition in state.transitions.items() if transition.given_up]
    reasons = (
        f"transition {name} is {state.transition(name).state}: {_given_up(state, name)}" for name in given_up
    )
    return f"nothing was left to do: {'; '.join(reasons)}"


def _given_up(state: PlanState, transition: str) -> str:
    """The reason why no date of a transition will come."""
    gone = state.transition(transition).gone
    if gone:
        of = f"element {gone[0]}, which was" if len(gone) == 1 else f"elements {listed(gone)}, which were"
        return f"its date was that of {of} outdated, and nothing has taken the place"
    suffix = ", or could not be told" if state.status in ("failed-end", "failed") else ""
    return f"its date was missed, and is not made up for{suffix}"


def _unhandled(state: PlanState, step: Step) -> str:
    """The reason why an error was not handled: the error links of its step, if it has any."""
    takers = [after for after in step.outs if any(link.on_error and link.step is step for link in after.ins)]
    if not takers:
        return f"no error link leaves step {step.id}"
    words = ", ".join(f"{transition.id} ({state.transition(transition.id).state})" for transition in takers)
    return f"no error link of step {step.id} took the error: {words}"


def reason_of_step(definition: Recipe, state: PlanState, step: Step) -> str:
    """The reason for the state of a step."""
    run = state.step(step.id)
    leading = ", ".join(f"{before.id} ({state.transition(before.id).state})" for before in step.ins)
    over = f"; the plan is {state.status}" if state.status != "running" else ""
    again = sum(call.until is not None for call in run.calls.values())
    resting = f", {again} of them will be tried again" if again else ""
    reserved = "it waits for an element that another call has reserved"
    running = f"{len(run.calls)} of its calls of {step.called} have not come back{resting}"
    if step.until is not None and not run.calls:
        running = (
            reserved if step.id in state.blocked else "nothing fits its until, and its next call is to come"
        )
        running = running if state.status == "running" else "it was to be called again, and was given up"
    texts = {
        "todo": f"no transition has led to it yet: {leading or 'none does'}{over}",
        "ready": reserved if step.id in state.blocked else f"it was not run{over}",
        "running": f"{running}{over}" if not run.calls else running,
        "done": "it did its work",
        "history": "it did its work and the plan has gone on" if not run.errors else "its error was handled",
        "impossible": _lost(definition, state, step) if run.state == "impossible" else "",
        "error": f"{step.called} ended in error: element {listed(run.errors)}",
        "failed": f"narval could not run it: element {run.fault}",
    }
    return f"step {step.id} is {run.state}: {texts.get(run.state, '')}"


def _lost(definition: Recipe, state: PlanState, step: Step, depth: int = 0) -> str:
    """The reason why no transition can lead to a step any longer, back to the choice made."""
    if depth >= FOLLOWED:
        return "the plan went another way"
    reasons = []
    for transition in step.ins[:1] if depth else step.ins:
        word = state.transition(transition.id).state
        if word in ("impossible", "fail"):
            dead = word == "impossible"
            why = _dead(definition, state, transition, depth) if dead else _failed(state, transition)
            reasons.append(f"transition {transition.id} leads to it, and {why}")
    return "; ".join(reasons) or "the plan went another way"


def _dead(definition: Recipe, state: PlanState, transition: Transition, depth: int = 0) -> str:
    """The reason why a transition can no longer fire: the state of the in-step that it lacks."""
    if state.transition(transition.id).given_up:
        return _given_up(state, transition.id)
    for link in transition.ins:
        step, word = link.step, state.step(link.step.id).state
        if word == "history":
            return _instead(state, transition, step)
        if word == "impossible":
            return f"step {step.id} is impossible: {_lost(definition, state, step, depth + 1)}"
        needed = "error" if link.on_error else "done"
        if word not in NOT_ENDED and word != needed:
            return f"it can no longer fire: {step.id} is {word} (wanted: {needed})"
    return "it can no longer fire"


def _instead(state: PlanState, transition: Transition, step: Step) -> str:
    """Words for the rival transition that fired instead, and ended the in-step that both share."""
    for rival in step.outs:
        if rival is not transition and state.transition(rival.id).state == "fired":
            took = taken(rival, state.transition(rival.id))
            elements = f" with {took}" if took else ""
            order = f" (priority {rival.priority}, that of {transition.id} is {transition.priority})"
            ranked = order if rival.priority != transition.priority else ""
            return f"transition {rival.id}{ranked} was taken instead{elements}, and ended step {step.id}"
    return f"step {step.id} is history"


def _reason_of_transition(definition: Recipe, state: PlanState, transition: Transition) -> str:
    word = state.transition(transition.id).state
    ins = ", ".join(
        f"{link.step.id} is {state.step(link.step.id).state}{' (wanted: error)' if link.on_error else ''}"
        for link in transition.ins
    )
    took = taken(transition, state.transition(transition.id))
    absence = any(condition.absent for condition in transition.conditions)
    lacking = "some condition does not hold" if absence else "some condition has no element"
    if transition.id in state.awaiting_duration:
        young = state.transition(transition.id)
        lacking = f"{young_elements(young)} must still fit for a while"
    texts = {
        "wait-step": f"its in-steps have not all ended: {ins}",
        "wait-time": "its in-steps have ended, and its date has not come",
        "wait-condition": f"its in-steps are done, and {lacking}",
        "fired": f"it was taken with {took}" if took else "it was taken",
        "impossible": _dead(definition, state, transition) if word == "impossible" else "",
        "fail": _failed(state, transition, f" when its in-steps had ended: {ins}"),
    }
    return f"transition {transition.id} is {word}: {texts.get(word, '')}"


def _failed(state: PlanState, transition: Transition, then: str = "") -> str:
    """The reason why a transition failed: no date was left, or the conditions of an error link did not
    hold.
    """
    if transition.times and not state.transition(transition.id).come:
        return "none of its dates ever comes again"
    return f"its conditions did not hold{then}"


def dead_ends(definition: Recipe, state: PlanState) -> Iterator[str]:
    """The reasons why a stuck plan did not continue, one for each transition with an in-step that ended."""
    for transition in unfired(definition, state):
        yield _reason_of_transition(definition, state, transition)


def unfired(definition: Recipe, state: PlanState) -> Iterator[Transition]:
    """The transitions that have not fired although an in-step has ended and is not history."""
    for transition in definition.transitions.values():
        ended = any(state.step(link.step.id).state in ("done", "error") for link in transition.ins)
        if ended and state.transition(transition.id).state != "fired":
            yield transition


def young_elements(run: TransitionRun) -> str:
    """Words for the elements that fit the conditions of a transition, but not for long enough yet."""
    eids = dict.fromkeys(satisfied.eid for satisfied in run.satisfied)
    return f"element{'s' if len(eids) > 1 else ''} {listed(eids)}"


def taken(transition: Transition, run: TransitionRun) -> str:
    """The elements that a transition took, with the names of those that have one; "" for none."""
    if not run.took:
        return ""
    texts = []
    for at, condition in enumerate(transition.conditions):
        eids = run.taken_by(at)
        if eids:
            texts.append(f"{listed(eids)} as {condition.name}" if condition.name else listed(eids))
    return f"elements {', '.join(texts)}"


def listed(eids: Iterable[int]) -> str:
    """Eids in a sentence."""
    return ", ".join(map(str, eids))


part_word = "step"

story: Story = {
    "PlanResumed": Fact("It goes on from step {step} of {of:run}."),
    "StepBlocked": Fact("It waits: another call has reserved what it could take.", part="step"),
    "StepResting": Fact("It rests until {until:moment}.", part="step"),
    "RestEnded": Fact("Its rest is over.", part="step"),
    "SelectionGrown": Fact("It takes {element:element} too.", part="step"),
    "CallsDropped": Fact("It does without {elements:element}, taken elsewhere meanwhile.", part="step"),
    "TryFailed": Fact("It is tried again at {until:moment}.", part="call"),
    "CallExpired": Fact("Its time limit is over.", part="call"),
    "CallSpoilt": Fact("A source gave what fits no output: {problem}.", part="call"),
    "StepFailed": Fact("It cannot run: {error:element}.", part="step"),
    "DateSet": Fact("It waits until {date:moment}.", part="transition"),
    "DateCome": Fact("Its moment came.", part="transition"),
    "DateGivenUp": Fact("No date of it comes any more.", part="transition"),
    "VersionFollowed": Fact("{new:element} takes the place of {old:element}."),
    "TransitionWaiting": Fact("It waits for {watch:watch}.", part="transition"),
    "DurationStarted": Fact("Its conditions hold, and have to until {until:moment}.", part="transition"),
    "DurationEnded": Fact("It no longer waits for that moment.", part="transition"),
    "TransitionFired": Fact(
        "It began: transition {transition} fired[, with {took:element}].",
        part="starts",
        word="step",
        begins=True,
    ),
    "MadeImpossible": Fact("[No longer reached: {steps}.]"),
    "TransitionFailed": Fact("It can no longer fire.", part="transition"),
}
"""The changes of interest to people, in sentences."""
