"""Random recipes with random answers: whatever happens, the rules of plans hold (N21–N28).

`Dialogue` checks after each event that what was recorded makes the same state again, that the state can be
stored, and that a plan waits for something exactly as long as it is not over; here come the rules of plans.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from narval.core.definitions.action.definition import Input, Output
from narval.kinds.recipe.engine.changes import CallMade, StepRunning, TransitionFired
from narval.kinds.recipe.engine.state import NOT_ENDED
from tests.core.engines.dialogue import Dialogue, action, recipe, step, transition
from tests.examples import examples

NAMES = ("red", "green", "blue")
CONDITIONS = [*NAMES, *(f"use {name}" for name in NAMES), "*[@n > 2]", "red[@n = $s0/@n]", "never"]
ELEMENTS = ["<red n='1'/>", "<green n='2'/>", "<blue n='3'/>"]
ANSWERS = [*ELEMENTS, *ELEMENTS, *ELEMENTS, "<error/>"]

GIVES = [Output("any", "*", list=True, optional=True)]
ACTIONS = {
    "m.none": action("m.none", (), GIVES),
    "m.optional": action("m.optional", [Input("in", "red", use=True, optional=True)], GIVES),
    "m.takes": action("m.takes", [Input("in", "red | green")], GIVES),
    "m.uses": action("m.uses", [Input("in", "green", use=True)], GIVES),
    "m.replaces": action("m.replaces", [Input("in", "blue", outdates=True)], GIVES),
    "m.lists": action("m.lists", [Input("in", "red", list=True, optional=True), Input("one", "*")], GIVES),
    "m.pairs": action("m.pairs", [Input("in", "red"), Input("with", "green", use=True)], GIVES),
    "m.strict": action("m.strict", (), [Output("red", "red")]),
    "m.source": action("m.source", (), GIVES, source=True),
    "m.gone": None,
}


@st.composite
def plans(draw: st.DrawFn) -> str:
    """A recipe without cycles whose steps can all be reached."""
    size = draw(st.integers(2, 9))
    steps = [draw(steps_of(number)) for number in range(size)]
    transitions = []
    for number in range(1, size):
        transitions.append(draw(transitions_to(number, len(transitions))))
    for _ in range(draw(st.integers(0, size))):
        transitions.append(draw(transitions_to(draw(st.integers(1, size - 1)), len(transitions))))
    restart = draw(st.sampled_from(["no", "yes", "parallel"]))
    end = f"s{max(draw(st.integers(0, size - 1)) for _ in range(3))}"
    return recipe("g.r", *steps, *transitions, start="s0", end=end, restart=restart)


@st.composite
def steps_of(draw: st.DrawFn, number: int) -> str:
    target = draw(st.sampled_from([*ACTIONS, *["m.none"] * 9, *["m.optional"] * 3]))
    attributes = {}
    if target in ("m.optional", "m.replaces") and draw(st.booleans()):
        attributes["foreach"] = {"m.optional": "red", "m.replaces": "blue"}[target]
        if draw(st.booleans()):
            attributes["max-parallel"] = str(draw(st.integers(1, 2)))
    elif target != "m.source" and draw(st.integers(0, 11)) == 0:
        attributes |= {"until": draw(st.sampled_from(["never", "green", "red[@n = $s0/@n]"])), "every": "5s"}
    inside = draw(st.sampled_from(["", "", '<context from="plan"><match>*</match></context>']))
    if target == "m.pairs" and "until" not in attributes and draw(st.booleans()):
        name = draw(st.sampled_from(["each", "in"]))
        inside += f'<input id="with"><match>green[@n &gt; ${name}/@n]</match></input>'
        attributes |= {"foreach": "red"} if name == "each" or draw(st.booleans()) else {}
    return step(f"s{number}", target, inside, **attributes)


@st.composite
def transitions_to(draw: st.DrawFn, number: int, count: int) -> str:
    """A transition to that step, and perhaps to later ones, from one to three that come before it."""
    ins = draw(st.lists(st.integers(0, number - 1), min_size=1, max_size=3, unique=True))
    links = " ".join(f"s{name}{'!' if draw(st.integers(0, 3)) == 0 else ''}" for name in ins)
    conditions = draw(st.lists(st.sampled_from(CONDITIONS), max_size=2)) if draw(st.booleans()) else []
    return transition(f"t{count}", links, f"s{number}", *conditions, priority=draw(st.integers(0, 2)))


@settings(max_examples=examples(300), deadline=None)
@given(plans(), st.data())
def test_whatever_happens_the_rules_of_plans_hold(text: str, data: st.DataObject) -> None:
    said = Dialogue(text, *(known for known in ACTIONS.values() if known is not None))
    for _ in range(data.draw(st.integers(0, 3))):
        said.add(data.draw(st.sampled_from(ELEMENTS)))
    runs = [said.start("g.r")]
    story = Story()
    story.hear(said)
    for _ in range(40):
        happens(said, runs, data)
        story.hear(said)
        if all(run in said.finished for run in runs):
            break
    for run in runs:
        story.check(said, run)


def happens(said: Dialogue, runs: list[int], data: st.DataObject) -> None:
    """One thing more: a call comes back, a source yields, an element arrives, a plan begins or is ended."""
    calls = [call for run, call in said.calls.values()]
    what = data.draw(st.integers(0, 19))
    if calls and what < 15:
        call = data.draw(st.sampled_from(calls))
        xml = data.draw(st.lists(st.sampled_from(ANSWERS), max_size=2))
        run, _ = said.calls[call.call]
        given = next((eid for _, eids in call.inputs for eid in eids), None)
        if what == 14:
            said.answer(call, abandoned=True)
        elif what > 11 and call.name == "m.source":
            said.produced(call.step, *xml, run=run)
        elif sum(other.step == call.step for other in said.calls_of(call.step, run)) > 1:
            said.returned(call.step, *xml, run=run, given=given)
        else:
            said.returned(call.step, *xml, run=run)
    elif what == 17 and said.wakes:
        said.until_woken()
    elif what < 18:
        said.arrives(data.draw(st.sampled_from(ANSWERS)))
    elif what == 18 and len(runs) < 3:
        runs.append(said.start("g.r"))
    elif what == 19 and data.draw(st.booleans()):
        said.cancel(data.draw(st.sampled_from(runs)))


class Story:
    """All that was decided, to be checked against the rules."""

    def __init__(self) -> None:
        self.ran: Counter[tuple[int, str]] = Counter()
        self.fired: Counter[tuple[int, str]] = Counter()
        self.left: Counter[tuple[int, str]] = Counter()
        self.used: Counter[tuple[str, int]] = Counter()

    def hear(self, said: Dialogue) -> None:
        heard_now, said.heard = said.heard, []
        for heard in heard_now:
            for change in heard.changes:
                if isinstance(change, StepRunning):
                    self.ran[heard.run, change.step] += 1
                elif isinstance(change, TransitionFired):
                    self.fired[heard.run, change.transition] += 1
                    self.left.update((heard.run, name) for name in change.ends)
                if isinstance(change, StepRunning | CallMade) and self.uses(said, heard.run, change.step):
                    self.used.update((change.step, eid) for eid in change.inputs)

    @staticmethod
    def uses(said: Dialogue, run: int, step: str) -> bool:
        return said.definitions[run].steps[step].target in ("m.optional", "m.uses")

    def check(self, said: Dialogue, run: int) -> None:
        state, definition = said.states[run], said.definitions[run]
        assert max(self.ran.values(), default=0) <= 1, "a step runs once in a plan"
        assert max(self.fired.values(), default=0) <= 1, "a transition fires once in a plan"
        assert max(self.left.values(), default=0) <= 1, "one of the rivals fires"
        assert max(self.used.values(), default=0) <= 1, "what is used is given once (N18)"
        steps = said.steps(run)
        if state.status == "done":
            assert steps[definition.end.id] == "done"
        if state.status == "failed":
            assert said.memory.element(state.error).name == "error"
            assert steps[definition.end.id] != "done"
        if run in said.finished and state.status != "cancelled":
            left = [name for name, word in steps.items() if word == "running"]
            assert all(definition.steps[name].until is not None for name in left), "given up while they rest"
        for watched in definition.transitions.values():
            self.check_transition(said, run, watched)

    def check_transition(self, said: Dialogue, run: int, transition: object) -> None:
        steps, word = said.steps(run), said.transitions(run)[transition.id]
        wanted = {link.step.id: "error" if link.on_error else "done" for link in transition.ins}
        if word == "fired":
            assert all(steps[name] == "history" for name in wanted)
            assert all(steps[part.id] not in ("todo", "impossible") for part in transition.outs)
        elif word == "wait-condition":
            assert all(steps[name] == to for name, to in wanted.items())
        elif word == "impossible":
            assert any(steps[name] not in (to, *NOT_ENDED) for name, to in wanted.items())
            for out in transition.outs:
                others = {said.transitions(run)[part.id] for part in out.ins}
                assert others - {"impossible", "fail"} or steps[out.id] == "impossible"
