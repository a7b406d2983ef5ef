"""Calls that are held back until a person agrees.

These are calls of actions for which their step (P72) or home (P73) asks, and calls that go outside: of
actions, programs and agents of other homes. The rules of the home decide which of the latter are held back;
in a home without rules, those that a language model's answer led to.

A waiting call is active like any other. Its item is found by the call's id, like a run that answers it, so
the call is cancelled, explained and recovered after a crash in the same ways, and nothing else is stored for
it. The caller does not know that a person is asked, and so cannot bypass it.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import structs
from msgspec.structs import replace

from narval.agent.agent import AgentState
from narval.agent.loop import Request
from narval.agent.run import Run
from narval.agent.runs import refusal_of_gone
from narval.agent.turn import Turn
from narval.calls.book import Post, refused
from narval.calls.leaving import leaving, shown_call
from narval.calls.of_kinds import begin_run
from narval.calls.verdicts import deciding, facts_of, lines_about, question_of, refused_by_rule
from narval.core.definitions.action.definition import Action
from narval.core.definitions.people.directory import AFTER_A_MODEL, BY_A_RULE, DESTROYING, Approval
from narval.core.engines.commands import PROGRAM, SEND, Call
from narval.core.engines.decision import Inputs
from narval.core.engines.events import Failure, HeldCalls, Returned
from narval.core.errors import NarvalError
from narval.core.kinds import ASKING, UNDOING
from narval.core.memory.labels import NONE
from narval.core.memory.memory import Memory
from narval.core.trust.allowing import allowing_rules
from narval.core.trust.parts import Part, elements_given, inputs_of
from narval.core.trust.rules import Facts, Rules, Verdict, decide, together
from narval.files.trust_file import TRUST_FILE, add_rules
from narval.system.clock import RunClock

log = logging.getLogger("narval.perform")

MOST_CALLS = 100
"""The most calls that one item lists; if a `foreach` makes more, each has its own item."""

MOST_BYTES = 32_768
"""The most bytes of elements that one item for several calls shows."""

_Asking = tuple[int, str, str, str]
"""A run, its step, the action it calls, and the work that asks. One item asks for all such calls."""

BECAUSE = "a language model's answer has entered into the run, or into what the call is given"


class Called(NamedTuple):
    """The version of a call's target, and the place where it runs."""

    version: str
    where: str


def comes_of_a_model(agent: AgentState, run: Run, call: Call) -> bool:
    """True if a language model's answer has entered a run, one of its callers, or the inputs of a call."""
    labels = agent.memory.labels
    if not (labels.pages and labels.has_hearsay):
        return False
    callers = deciding(agent, run)
    return labels.is_hearsay(labels.of((*callers, *given_to(call))))


def hears(agent: AgentState, run: Run, call: Call) -> bool:
    """True in a home without rules if a language model's answer led to a call."""
    return agent.lookup.rules is None and comes_of_a_model(agent, run, call)


def given_to(call: Call) -> tuple[int, ...]:
    """The elements that a call is given, including those for another agent."""
    return tuple(eid for _, eids in inputs_of(call) for eid in eids)


class Said(NamedTuple):
    """The parts of a call that make rules ask, lines about them, and rules that would always allow the
    same.
    """

    lines: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    always: str = ""


class Held(NamedTuple):
    """The decision not to make a call now."""

    refusal: Returned | None = None
    """The answer to a call that is refused; None if a person is asked first."""


class Approvals:
    """The calls of one agent about which a person is asked first, or which rules refuse.

    `home` is the folder whose trust file gets the rules that a person agrees to, unless time is simulated.
    """

    def __init__(self, agent: AgentState, post: Post, home: Path | None, clock: RunClock) -> None:
        self._agent, self._post, self._clock = agent, post, clock
        self._home = home if clock.standing() is None else None
        self._asking: dict[_Asking, dict[str, Call]] = {}
        """The calls to ask about since the last turn, by their ids."""

    def stop(self, run: Run, call: Call) -> Held | None:
        """Refuse a call that a rule refuses, or have a person asked before it is made. Return None if it may
        be made: nobody must be asked, or everybody asked has agreed. A call that is stopped twice is asked
        about once.
        """
        verdict = self.verdict(run, call)
        if verdict is not None and verdict.then == "refuse":
            called = next(map(shown_call, leaving(self._agent.memory, call)), call.name)
            return Held(refused(call, refused_by_rule(run, called, verdict)))
        work = self._next_work(run, call, verdict)
        if not work:
            self._add_rules(call, verdict)
            return None
        key = (run.eid, call.step, call.name, work)
        if key not in self._asking:
            self._post(Request(partial(self._ask, key)))
        self._asking.setdefault(key, {})[call.call] = call
        return Held()

    def verdict(self, run: Run, call: Call, brought: int = NONE) -> Verdict | None:
        """The verdict of the home's rules on a call that goes outside or may reveal a secret there; None if
        nothing is to be judged. `brought` are the labels that the call has brought in.
        """
        if not (judged := list(self._judged(run, call))):
            return None
        outputs = Part("outputs", "", True, self._agent.memory.labels.names(brought))
        verdict = together(
            decide(rules, structs.replace(facts, parts=(*facts.parts, outputs)) if brought else facts)
            for rules, facts in judged
        )
        if not call.approved:
            self._agent.lookup.rule_uses.note(verdict, self._clock.now())
        return verdict

    def _judged(self, run: Run, call: Call) -> Iterator[tuple[Rules, Facts]]:
        """The rules with the facts about each part of a call that goes outside or may reveal a secret there.
        Each agent of another home is judged separately.
        """
        rules, action = self._agent.lookup.rules, self._action(run, call)
        if rules is None or not self._agent.memory.labels.pages:
            return
        reads = action is not None and action.reads_outside and bool(self._agent.lookup.secrets)
        for one in [call] if reads else self._outside(run, call):
            yield rules, facts_of(self._agent, rules, run, one, action)

    def _next_work(self, run: Run, call: Call, verdict: Verdict | None) -> str:
        """The work that asks next whether a call may be made; "" if none has to. The work of people and of
        the step does not replace the home's own: anybody may have written it, and it may agree by itself. An
        agreement to another version of the action is no longer valid.
        """
        works: list[str] = []
        if call.kind == Action.kind:
            works += [
                rule.work
                for rule in self._agent.lookup.people.approvals
                if _fits(self._agent.memory, rule, call)
            ]
            works += [call.approve] * bool(call.approve)
        if own := self._own_work(run, call, verdict):
            works.append(own)
        if not works:
            return ""
        called = self._called(run, call)
        agreed = call.approved if called is not None and called.version == call.version else ()
        return next((work for work in works if work not in agreed), "")

    def _own_work(self, run: Run, call: Call, verdict: Verdict | None) -> str:
        """The work by which narval itself asks whether a call may be made; "" if it does not."""
        if verdict is not None and verdict.then == "ask":
            return BY_A_RULE
        if hears(self._agent, run, call) and self._outside(run, call):
            return AFTER_A_MODEL
        return DESTROYING if self._agent.lookup.asks_first(call.name) else ""

    def _add_rules(self, call: Call, verdict: Verdict | None) -> None:
        """Add the rules that a person agreed to together with a call, if it would still ask."""
        if not call.always or self._home is None:
            return
        if self._agent.lookup.rules is None:
            self._post(Request(partial(_tell_not_added, "it is gone")))
        if verdict is None or verdict.then != "ask":
            return
        try:
            if add_rules(self._home, call.always):
                lines = (line for line in call.always.splitlines() if not line.startswith("#"))
                log.info("%s has a rule more: %s", TRUST_FILE, " ".join(lines))
        except (OSError, NarvalError) as error:
            self._post(Request(partial(_tell_not_added, str(error))))

    def _outside(self, run: Run, call: Call) -> list[Call]:
        """The parts of a call that go outside: what it sends to agents of other homes; all of it for a
        program, or for an action that is visible outside the home.
        """
        if call.agent or call.kind == SEND:
            return leaving(self._agent.memory, call)
        action = self._action(run, call)
        return [call] * (call.kind == PROGRAM if action is None else action.outside)

    def _called(self, run: Run, call: Call) -> Called | None:
        """The version of a call's target, and where it runs; None if there is no such action."""
        if call.agent or call.kind == SEND:
            return Called("", ", ".join(one.agent for one in leaving(self._agent.memory, call)))
        if call.kind == PROGRAM:
            return Called(hashlib.sha256(msgspec.msgpack.encode(call.program)).hexdigest(), PROGRAM)
        action = self._action(run, call)
        return None if action is None else Called(action.digest, action.where)

    def _action(self, run: Run, call: Call) -> Action | None:
        if call.kind != Action.kind or call.agent:
            return None
        definition = self._agent.lookup.definition(run, call.kind, call.name)
        return definition if isinstance(definition, Action) else None

    def ask(self, turn: Turn) -> None:
        """Offer the items for all calls that wait for one."""
        for key in tuple(self._asking):
            self._ask(key, turn)

    def _ask(self, key: _Asking, turn: Turn) -> None:
        """Offer items for the calls of a step that still wait; refuse them if nobody can be asked."""
        eid, _, name, work = key
        asked, run = self._asking.pop(key, {}), turn.agent.runs.active.get(eid)
        if run is None:
            return
        for call in asked.values():
            if call.call in run.abandoned:
                turn.tell(eid, Returned(0, 0.0, call.call, abandoned=True))
        by_call = turn.agent.runs.by_call
        calls = [call for call in asked.values() if call.call in run.calls and call.call not in by_call]
        for call in calls if run.kind not in UNDOING else ():  # they get only what was withdrawn
            memory = turn.agent.memory
            if (gone := refusal_of_gone(memory, name, given_to(call), memory.doubtful)) is not None:
                turn.tell(eid, refused(call, gone))
        calls = [call for call in calls if call.call in run.calls]
        called = self._called(run, calls[0]) if calls else None
        why = f"there is no {calls[0].kind} named {name}" if calls and called is None else ""
        if work in _SHIPPED and calls and turn.agent.lookup.definition(run, ASKING, work) is None:
            why = f"{_REASONS[work]}, so {work} is to agree to {name}; take it: narval take {_SHIPPED[work]}"
        if why or called is None:
            for call in calls:
                turn.tell(eid, refused(call, Failure("unknown-target", why, final=True)))
            return
        for listed in _listed(self._agent.memory, calls):
            self._offer(turn, run, called, work, listed)

    def _offer(self, turn: Turn, run: Run, called: Called, work: str, calls: list[Call]) -> None:
        first = calls[0]
        parts: list[str] = []
        always: dict[str, None] = {}
        asking: list[Part] = []
        for number, call in enumerate(calls, 1) if work == BY_A_RULE else ():
            said = self._said(run, call)
            parts += (f"Call {number}: {line}" if len(calls) > 1 else line for line in said.lines)
            asking += said.parts
            always[said.always] = None
        action, away = self._action(run, first), leaving(self._agent.memory, first)
        listed: tuple[tuple[str, Inputs], ...] = tuple((call.call, inputs_of(call)) for call in calls)
        held = HeldCalls(
            first.kind,
            shown_call(away[0]) if away else first.name,
            called.version,
            called.where,
            asking=run.name,
            calls=listed,
            void=first.version if first.version != called.version else "",
            because=_REASONS.get(work, "") if work != BY_A_RULE else "",
            parts=tuple(parts),
            always="" if "" in always else "\n".join(always),
            question=question_of(self._agent.memory, calls, action, asking) if work in _SHIPPED else "",
            fails=run.kind not in UNDOING and run.definition.fails_with(first.step),
        )
        doubtful = self._agent.memory.doubtful & held.given()
        held = replace(held, doubtful=tuple(sorted(doubtful)))
        eids = dict.fromkeys(eid for _, inputs in listed for _, taken in inputs for eid in taken)
        asking_for = replace(first, kind=ASKING, name=work, elements=tuple(eids), inputs=())
        begin_run(run, replace(asking_for, agent="", payload=None), turn, held)

    def _said(self, run: Run, call: Call) -> Said:
        """The texts for people about a call that rules ask about."""
        judged = list(self._judged(run, call))
        verdict = together(decide(*each) for each in judged)
        elements = elements_given(self._agent.memory, call)
        always = [allowing_rules(decide(rules, facts), facts, elements) for rules, facts in judged]
        return Said(
            tuple(lines_about(self._agent, verdict)),
            tuple(one.part for one in verdict.judgements if one.then == "ask"),
            always[0] if len(always) == 1 else "",
        )


def _fits(memory: Memory, rule: Approval, call: Call) -> bool:
    """True if a rule of the home applies to a call: it names the action, and an input matches."""
    if rule.action != call.name:
        return False
    elements = (memory.element(eid) for _, eids in call.inputs for eid in eids)
    return rule.condition is None or any(
        rule.condition.bind().test(memory.tree(element)) for element in elements if element is not None
    )


def _listed(memory: Memory, calls: list[Call]) -> Iterator[list[Call]]:
    """The calls that each item lists: all in one, unless they are too many or too large to read."""
    eids = {eid for call in calls for eid in given_to(call)}
    size = sum(len(element.xml) for element in map(memory.element, eids) if element is not None)
    if len(calls) <= MOST_CALLS and size <= MOST_BYTES:
        yield calls
    else:
        yield from ([call] for call in calls)


def _tell_not_added(why: str, turn: Turn) -> None:
    """Record the error that an agreed rule was not added. While the trust file exists, the next call asks
    again.
    """
    turn.transaction.add_error(
        "rule-not-added", f"no rule was added to {TRUST_FILE}, although the answer was always: {why}"
    )


_SHIPPED = {
    AFTER_A_MODEL: "recipes/model.xml",
    BY_A_RULE: "recipes/trust.xml",
    DESTROYING: "recipes/tools.xml",
}
"""The files with the work that asks if neither the step nor the home names any."""

_REASONS = {
    AFTER_A_MODEL: BECAUSE,
    BY_A_RULE: "a rule asks first",
    DESTROYING: "its MCP server says that it destroys or overwrites something",
}
"""The reasons why this work asks."""
