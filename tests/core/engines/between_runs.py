"""What the runs of a dialogue tell one another within it, as the runtime has it done (K52)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from narval.core.engines.commands import SIGNAL, Answer, Call, CancelCall, Command, Finish
from narval.core.engines.events import Event, Failure, Returned, Signalled

if TYPE_CHECKING:
    from tests.core.engines.dialogue import Dialogue


def hearer(said: Dialogue, call: Call) -> int:
    """The run of the dialogue that a call tells; 0 where there is none: then the test answers it."""
    told: Any = (call.payload or {}).get("run") or said.standing.get(call.name, 0)
    return told if call.kind == SIGNAL and told in said.states and told not in said.finished else 0


def follows(said: Dialogue, run: int, command: Command) -> list[tuple[int, Event]]:
    """The events that follow from a command of a run."""
    match command:
        case Call():
            return _called(said, run, command)
        case Answer() | CancelCall():
            return _performed(said, run, command)
        case Finish():
            return _finished(said, run)
    return []


def _called(said: Dialogue, run: int, call: Call) -> list[tuple[int, Event]]:
    """The events that follow from a call."""
    payload: Any = call.payload or {}
    arguments = {**payload.get("arguments", {}), "from": run}
    told = Signalled(0, said.now, call.call, payload.get("signal", ""), arguments=arguments, sender=run)
    return [(to, told)] if (to := hearer(said, call)) else []


def _performed(said: Dialogue, run: int, command: Answer | CancelCall) -> list[tuple[int, Event]]:
    """The events that follow from an answer, or from a call that is given up."""
    if isinstance(command, CancelCall):
        return _given_up(said, run, said.in_force[run].calls.get(command.call))
    waiting, call = said.calls.get(command.signal, (0, None))
    if call is None or hearer(said, call) != run:
        return []
    value = dict(command.value) if command.value is not None else None
    eids: Any = value.pop("eids", ()) if value is not None else ()
    given = {"eids": tuple(eids), "problem": command.problem, "value": value}
    return [(waiting, Returned(0, said.now, call.call, **given))]


def _finished(said: Dialogue, run: int) -> list[tuple[int, Event]]:
    """The events that follow from the end of a run; it is not counted among those that are over yet."""
    problem = Failure("over", f"run {run} is over")
    owed = [(of, call) for of, call in said.calls.values() if hearer(said, call) == run]
    events: list[tuple[int, Event]] = [
        (of, Returned(0, said.now, call.call, problem=problem)) for of, call in owed if of != run
    ]
    for call in said.in_force[run].calls.values():
        events += _given_up(said, run, call)[:1]
    return events


def _given_up(said: Dialogue, run: int, call: Call | None) -> list[tuple[int, Event]]:
    if call is None or not (to := hearer(said, call)):
        return []
    gone = Signalled(0, said.now, "", "gone", arguments={"signal": call.call, "from": run}, sender=run)
    return [(to, gone), (run, Returned(0, said.now, call.call, abandoned=True))]
