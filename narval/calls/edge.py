"""Judgement of everything that leaves the home: calls to agents of other homes, and answers to them."""

from __future__ import annotations

from collections.abc import Callable

from narval.agent.run import Run, given_up_by
from narval.agent.runs import failure_of
from narval.agent.transaction import CallGivenUp
from narval.agent.turn import Turn
from narval.agent.view import TellAndSend
from narval.calls.approvals import BECAUSE, Approvals, hears
from narval.calls.verdicts import REFUSED
from narval.core.agent_name import AT
from narval.core.definitions.action.definition import Action
from narval.core.definitions.people.directory import AFTER_A_MODEL
from narval.core.engines.commands import Call, CancelCall, Finish
from narval.core.engines.events import Failure, Produced, Returned
from narval.core.trust.rules import Verdict
from narval.files.trust_file import TRUST_FILE

ANSWER = "answer"
"""The kind, and the input name, under which rules judge an answer to an agent of another home."""

UNASKED = "asks-first"
"""The error type for something that needs an approval when it is too late to ask for one."""


class Edge:
    """The edge of the home for one agent: calls to agents of other homes, and answers to them, leave when a
    turn is recorded.

    `send` sends the calls and answers of a turn to other agents; `send_outputs` delivers a call's result to
    its run, and sends its messages to other agents.
    """

    def __init__(self, approvals: Approvals, send: Callable[[Turn], None], send_outputs: TellAndSend) -> None:
        self._approvals, self._send, self._send_outputs = approvals, send, send_outputs

    def correspond(self, turn: Turn) -> None:
        """Send the calls and answers of a turn to other agents, as far as they may leave the home."""
        if turn.transaction.remote:
            self._hold_back(turn)
        self._send(turn)

    def tell_and_send(self, turn: Turn, run: Run, event: Returned | Produced) -> bool:
        """Deliver a call's result to its run, and its messages to other agents, unless they may not leave."""
        problem = self._problem_of_sent(turn, run, event)
        if problem is None:
            return self._send_outputs(turn, run, event)
        if isinstance(event, Produced):
            turn.transaction.outer.append((run, CancelCall(event.call)))
        return turn.tell(run.eid, Returned(0, 0.0, event.call, problem=problem), is_labelled=True)

    def _hold_back(self, turn: Turn) -> None:
        """Hold back calls that are refused or need an approval first, and answers that the rules do not
        allow. An item that asks is recorded with the turn, so it survives a crash.
        """
        remote, going = turn.transaction.remote, list[tuple[Run, Call | CallGivenUp | Finish | Failure]]()
        while remote:
            pending = [*remote]
            remote.clear()
            going += (one for run, what in pending if (one := self._judged(turn, run, what)) is not None)
            self._approvals.ask(turn)
        remote += going
        if turn.transaction.unsettled:
            turn.transaction.settle()

    def _judged(
        self, turn: Turn, run: Run, what: Call | CallGivenUp | Finish | Failure
    ) -> tuple[Run, Call | CallGivenUp | Finish | Failure] | None:
        queue = turn.agent.queue
        if isinstance(what, Call) and AT in what.agent:
            stopped = self._approvals.stop(run, what)
            if stopped is not None and stopped.refusal is not None:
                queue.append((0, run.eid, stopped.refusal))
            return (run, what) if stopped is None else None
        if (
            isinstance(what, CallGivenUp)
            and (item := turn.agent.runs.by_call.get(what.call.call)) is not None
        ):
            queue.append((0, item, given_up_by(run)))
            return None
        if isinstance(what, Finish):
            return run, self._withheld_answer(turn, run, what) or what
        return run, what

    def _withheld_answer(self, turn: Turn, run: Run, end: Finish) -> Failure | None:
        """The failure to send an agent of another home instead of its call's result, without the rule and the
        label; None if the result may be sent.
        """
        caller = run.caller if run.state is None or run.state.caller is None else run.state.caller
        if caller is None or AT not in caller.agent:
            return None
        if end.phase == "failed" and (kind := failure_of(turn.transaction, run).kind) in (REFUSED, UNASKED):
            return Failure(kind, f"{run.name} is refused by rules of its home", final=True)
        eids = (*end.eids, *([end.error] if end.error is not None else ()))
        call = Call("", ANSWER, run.name, "", inputs=((ANSWER, eids),), agent=caller.agent)
        verdict = self._approvals.verdict(run, call)
        if verdict is None or verdict.then == "allow":
            return None
        what = f"what {run.name} gives"
        turn.transaction.add_error(*_why(run, caller.agent, what, verdict), run=run.eid, recipe=run.name)
        return Failure(UNASKED, f"{what} is withheld by rules of its home", final=True)

    def _problem_of_sent(self, turn: Turn, run: Run, event: Returned | Produced) -> Failure | None:
        """The reason why code may not send its outputs to agents of other homes; None if it may. Each output,
        and the name of its agent, may depend on everything that the code was given.
        """
        call = run.calls.get(event.call)
        if call is None:
            return None
        for to in dict.fromkeys(output.to for output in event.elements if AT in output.to):
            named = Call("", Action.kind, call.name, call.step, call.inputs, agent=to)
            brought = turn.transaction.comes_with
            verdict = self._approvals.verdict(run, named, brought)
            if verdict is not None and verdict.then != "allow":
                return Failure(*_why(run, to, f"what {call.name} sends", verdict), final=True)
            said = hears(turn.agent, run, call) or turn.agent.memory.labels.is_hearsay(brought)
            if verdict is None and said and AFTER_A_MODEL not in call.approved:
                why = (
                    f"what {call.name} sends does not go to {to}: {BECAUSE}, and no person can be asked then"
                )
                return Failure(UNASKED, why, final=True)
        return None


def _why(run: Run, agent: str, what: str, verdict: Verdict) -> tuple[str, str]:
    """The error type and message for something of a run that does not go to an agent."""
    judgement = verdict.judgement
    assert judgement is not None, "it is not allowed"
    kind = REFUSED if verdict.then == "refuse" else UNASKED
    rule, label = judgement.rule, judgement.label
    line = f"the rule on line {rule.line} of {TRUST_FILE}" if rule is not None else "it"
    does = "refuses that" if verdict.then == "refuse" else "asks first, and no person can be asked then"
    how = f'a rule allows it with action = "agent:{agent}" and recipe = "{run.name}"'
    return kind, f"{what} does not go to {agent}: it has the label {label}, and {line} {does}; {how}"
