"""Cases in dialogues: of types that have but compensators, with servers that hear what they are told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from narval.core.engines import commands
from narval.core.engines.commands import SIGNAL, Call
from narval.core.engines.effects import InForce
from narval.core.engines.events import Failure, Signalled, Started
from narval.kinds.task.engine.case import engine
from narval.kinds.task.language.definition import PREDEFINED, TaskDefinition, TaskState
from tests.core.engines.dialogue import Dialogue

INSTANCE = 900
"""The eid of the first instance that says something."""

Routes = Iterable[tuple[str, int]]


def task(name: str, by: str = "", composed: tuple[str, ...] = (), script: str = "") -> TaskDefinition:
    """A task type of the group `g`; `by` compensates it, and it has a script of the state `script`."""
    states = {state: TaskState(state) for state in ("work", *PREDEFINED)}
    return TaskDefinition(
        group="g",
        name=name,
        initial="work",
        states=states,
        compensated_by=by,
        composed_from=composed,
        routes={script: ()} if script else {},
    )


class Cases(Dialogue):
    """A dialogue about cases; nobody is at `away` types."""

    def __init__(self, *types: TaskDefinition | str) -> None:
        super().__init__()
        found = [task(type) if isinstance(type, str) else type for type in types]
        self.library = self.library.replace(found)
        self.away = set[str]()
        self.queues: dict[int, str] = {}
        """The types whose servers have heard of an object, by its eid."""
        self.told: list[tuple[str, str, dict[str, Any]]] = []
        self.instances = INSTANCE

    def unload(self, *names: str) -> None:
        """Types are not loaded any more."""
        self.away.update(f"g.{name}" for name in names)

    def reload(self) -> None:
        """All types are loaded again."""
        self.away.clear()

    def definition(self, kind: str, name: str) -> Any:
        return self.library.get(kind, name)

    def begins_case(self, type: str, *objects: int, environment: dict[str, str] | None = None) -> int:
        """A case of these objects begins; its eid."""
        definition, case = self.library.get("task", f"g.{type}"), self.memory.next_eid
        self.definitions[case], self.engines[case], self.callers[case] = definition, engine, None
        self.states[case], self._replayed[case] = (engine.state_type.blank(case, definition) for _ in "12")
        self.in_force[case] = InForce()
        self.memory.show_run(case, engine.kind, self._rendered)
        self.tell(case, Started(self._next(), self.now, objects, environment=environment or {}))
        return case

    def tell(self, run: int, event: Any) -> None:
        """Tell a run an event; the servers answer at once, but where instances may have what is withdrawn."""
        super().tell(run, event)
        heard = self.heard
        for call in [call for _, call in self.calls.values()]:
            name: Any = (call.payload or {}).get("signal", "")
            if call.call not in self.calls or call.kind != SIGNAL or self.is_withdrawn(call):
                continue
            said: Any = (call.payload or {})["arguments"]
            self.told.append((call.name, name, said))
            if name == "withdraw":
                self.queues.pop(said["object"], None)
                self.answer(call, value={"withdrawn": True})
            elif call.name in self.away:
                self.answer(call, problem=Failure("unknown-target", f"nobody is at {call.name}"))
            else:
                self.queues[said["object"]] = call.name
                self.answer(call, value={"event": "7"} if name == "raise" else {})
            heard = [*heard, *self.heard]
        self.heard = heard

    def is_withdrawn(self, call: Call) -> bool:
        """True of a call that withdraws an object for good: a test answers it."""
        run, _ = self.calls[call.call]
        is_asked = (call.payload or {})["signal"] == "withdraw"
        return is_asked and self.states[run].members[int(call.step)].state not in ("held", "task")

    def withdrawals(self) -> dict[int, Call]:
        """The objects that servers are asked to withdraw, with the calls."""
        calls = (call for _, call in self.calls.values() if call.kind == SIGNAL)
        return {call.elements[0]: call for call in calls if (call.payload or {})["signal"] == "withdraw"}

    def withdraws(self, object: int, *, there: bool = True) -> None:
        """A server has withdrawn an object, or has not got it."""
        self.queues.pop(object, None)
        call = self.withdrawals()[object]
        problem = Failure("unknown-target", "nobody is there") if call.name in self.away else None
        self.answer(call, value=None if problem else {"withdrawn": there}, problem=problem)

    def says_of(self, case: int, name: str, **arguments: Any) -> dict[str, Any] | str | None:
        """An instance, or a server, says something of objects; the answer, or the kind of its problem."""
        self._signals += 1
        signal = f"i{self._signals}"
        self.instances += 1
        self.tell(
            case,
            Signalled(self._next(), self.now, signal, name, arguments=arguments, sender=self.instances),
        )
        return self.answer_to(signal)

    def answer_to(self, signal: str) -> dict[str, Any] | str | None:
        """The answer to a signal that followed from the last thing said; the kind of its problem; or None."""
        for answer in self.wishes(commands.Answer):
            if answer.signal == signal:
                return answer.problem.kind if answer.problem is not None else dict(answer.value or {})
        return None

    def passes_task(
        self,
        case: int,
        object: int,
        *routes: tuple[str, int],
        result: str = "FORWARD",
        now: int = 0,
        outputs: Iterable[int] = (),
        parts: dict[int, list[int]] | None = None,
    ) -> Any:
        """An instance is done with an object; the answer. A route is a type and an object, 0: this one."""
        self.queues.pop(object, None)
        member = self.states[case].members[self.states[case].objects[object]]
        return self.says_of(
            case,
            "ended",
            type=member.type,
            object=now or object,
            was=object,
            result=result,
            outputs=list(outputs),
            routes=[{"type": type, "object": eid or now or object} for type, eid in routes],
            parts={str(eid): made for eid, made in (parts or {}).items()},
        )

    def asked(self) -> Call:
        """The call of a compensator, or of an instance whose script of EXCEPTION is asked."""
        (call,) = [call for _, call in self.calls.values() if call.kind == "task"]
        return call

    def compensates(self, *, well: bool = True) -> tuple[str, tuple[int, ...]]:
        """The compensator under way is over; its name, and what it was given."""
        call = self.asked()
        self.answer(call, problem=None if well else Failure("run-failed", "the bank said no"))
        return call.name, call.elements

    def places(self, case: int) -> dict[int, str]:
        """Where each object is: its type, or its state."""
        members = self.states[case].members
        return {
            identity: member.type.removeprefix("g.") if member.state == "task" else member.state
            for identity, member in members.items()
        }

    def trail(self, case: int) -> list[tuple[str, str]]:
        """The types passed, and what became of each."""
        return [(step.type.removeprefix("g."), step.state) for step in self.states[case].trail]
