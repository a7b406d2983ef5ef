"""Hands each outer command to the part that does it, and brings back what comes of it as an event."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from narval.definitions.action import Action
from narval.definitions.library import Library
from narval.definitions.transform import Transform
from narval.engines import ENGINES
from narval.engines.commands import Abandon, Answer, Call, Outer
from narval.engines.events import Cancelled, Caller, Problem, Produced, Raw, Returned
from narval.memory.element import Element
from narval.runtime.agents import Agent, Run
from narval.runtime.executor import Executor
from narval.runtime.executors.contract import Outcome, Task, Where
from narval.runtime.loop import Delivery, Request
from narval.runtime.turn import Turn

Post = Callable[[Delivery | Request], None]
INTERRUPTED = Problem("interrupted", "the daemon stopped while the call was under way, and it is not to be repeated")


class Performer:
    """Performs the commands of one agent.

    `functions` are the Python functions of actions by full name, `sources` the text of the module of each;
    `stubs` take the place of actions in tests and dry runs. `prefix` makes call ids unique across homes.
    """

    def __init__(
        self, agent: Agent, executor: Executor, post: Post, *, home: Path | None, prefix: str, timeout: float | None
    ) -> None:
        self.agent, self.executor = agent, executor
        self.functions: Mapping[str, Callable[..., Any]] = {}
        self.sources: Mapping[str, bytes] = {}
        self.stubs: dict[str, Callable[..., Any]] = {}
        self.answers: dict[str, Callable[[Any, Any], None]] = {}
        self.flying: set[str] = set()
        """Calls that the executor has not answered yet, by their outside id."""
        self.stopping = False
        self._post, self._home, self._prefix, self._timeout = post, home, prefix, timeout
        self._perform: dict[type, Callable[[Run, Any], None]] = {
            Call: self._call,
            Abandon: self._abandon,
            Answer: self._answer,
        }

    def __call__(self, run: Run, command: Outer) -> None:
        """Perform a command; when the daemon is stopping, leave it to the next one (N34)."""
        if not self.stopping:
            self._perform[type(command)](run, command)

    def resume(self) -> None:
        """Perform again what was under way when the last daemon stopped (N35, N29)."""
        for run in list(self.agent.active.values()):
            for call in list(run.calls.values()):
                if call.call in run.abandoned:
                    self._post(Delivery(run.eid, Returned(0, 0.0, call.call, abandoned=True)))
                elif call.call in self.agent.by_call:
                    continue
                elif call.on_restart == "error":
                    self._post(Delivery(run.eid, Returned(0, 0.0, call.call, problem=INTERRUPTED)))
                else:
                    self._call(run, call)

    def outside_id(self, call: str) -> str:
        """The id of a call as actions see it: the same when tried again, unique across homes."""
        return f"{self._prefix}.{call}"

    def busy(self) -> bool:
        """Whether some call may yet go on by itself: a source that has caught up waits for the world (N36)."""
        return not all(self.executor.caught_up(call) for call in self.flying)

    # --- calls ----------------------------------------------------------------------------------------

    def _call(self, run: Run, call: Call) -> None:
        if call.kind in ENGINES:
            self._post(Request(partial(_begin, run, call), _ignore))
            return
        library: Library = self.agent.library
        definition = library.get(call.kind, call.name)
        inputs, gone = self._inputs(call)
        if gone or not isinstance(definition, Action | Transform):
            what = f"element {gone} was forgotten" if gone else f"there is no {call.kind} named {call.name}"
            self._refuse(run, call, Problem("unknown-target", what))
            return
        task = self._task(run, call, definition, inputs)
        self.flying.add(task.call)
        done, produced = partial(self._done, run.eid, call.call), partial(self._produced, run.eid, call.call)
        self.executor.start(task, done, produced)

    def _task(
        self, run: Run, call: Call, definition: Action | Transform, inputs: dict[str, Element | list[Element] | None]
    ) -> Task:
        function, where, source, function_name = None, "transform", definition.xml, ""
        stub = self.stubs.get(call.name)
        if isinstance(definition, Action):
            function = self.functions.get(call.name)
            where, source = definition.where, self.sources.get(definition.path, b"")
            function_name = definition.function
        if stub is not None:
            function, where = stub, _where_of(stub)
        timeout = call.timeout if call.timeout is not None else self._timeout
        return Task(
            call=self.outside_id(call.call),
            run=run.eid,
            step=call.step,
            action=call.name,
            where=_known(where),
            function=function,
            module_path=str(self._home / definition.path) if self._home is not None else definition.path,
            function_name=function_name,
            source=source,
            inputs=inputs,
            timeout=None if where == "source" and call.timeout is None else timeout,
            home=self._home,
        )

    def _inputs(self, call: Call) -> tuple[dict[str, Element | list[Element] | None], int]:
        """The elements a call is given, by input id; and the eid of one that is not there any more, or 0."""
        definition = self.agent.library.get(call.kind, call.name)
        given: dict[str, Element | list[Element] | None] = {}
        if isinstance(definition, Action | Transform):
            for each in definition.prototype.inputs:
                given[each.id] = [] if each.list else None
        for slot, eids in call.inputs:
            elements = []
            for eid in eids:
                element = self.agent.memory.element(eid)
                if element is None:
                    return given, eid
                elements.append(element)
            # A step may have tightened a list to one element (N14): the function still gets a list.
            given[slot] = elements if slot in call.listed or isinstance(given.get(slot), list) else elements[0]
        return given, 0

    def _refuse(self, run: Run, call: Call, problem: Problem) -> None:
        self._post(Delivery(run.eid, Returned(0, 0.0, call.call, problem=problem)))

    def _done(self, run: int, call: str, outcome: Outcome) -> None:
        self.flying.discard(self.outside_id(call))
        event = Returned(
            0,
            0.0,
            call,
            elements=tuple(outcome.elements),
            problem=outcome.problem,
            abandoned=outcome.abandoned,
        )
        self._post(Delivery(run, event))

    async def _produced(self, run: int, call: str, elements: list[Raw]) -> None:
        """A source has elements: it goes on when they are recorded (N36)."""
        recorded = asyncio.get_running_loop().create_future()
        event = Produced(0, 0.0, call, tuple(elements))
        self._post(Delivery(run, event, partial(_settle, recorded)))
        await recorded

    # --- the others -----------------------------------------------------------------------------------

    def _abandon(self, run: Run, command: Abandon) -> None:
        child = self.agent.by_call.get(command.call)
        if child is not None:
            self._post(Delivery(child, Cancelled(0, 0.0, f"run {run.eid} gave it up")))
        else:
            self.executor.abandon(self.outside_id(command.call))

    def _answer(self, run: Run, command: Answer) -> None:
        self.answers.pop(command.signal, _ignore)(command.value, command.problem)


def _begin(run: Run, call: Call, turn: Turn) -> None:
    """The run that answers a call begins, unless it has begun already or its caller is over."""
    if call.call in turn.agent.by_call or call.call not in run.calls:
        return
    caller = Caller(run.eid, call.step, call.call, call.near)
    definition = turn.agent.library.get(call.kind, call.name)
    if definition is None or turn.start(call.name, call.elements, kind=call.kind, caller=caller) is None:
        problem = Problem("unknown-target", f"there is no {call.kind} named {call.name}")
        turn.tell(run.eid, Returned(0, 0.0, call.call, problem=problem))


def _settle(recorded: asyncio.Future[None]) -> None:
    if not recorded.done():
        recorded.set_result(None)


def _ignore(value: Any, error: Any) -> None:
    """Nobody waits for this answer."""


def _where_of(function: Callable[..., Any]) -> str:
    if inspect.isasyncgenfunction(function):
        return "source"
    return "async" if inspect.iscoroutinefunction(function) else "inline"


def _known(where: str) -> Where:
    places: dict[str, Where] = {
        "thread": "thread",
        "worker": "worker",
        "inline": "inline",
        "async": "async",
        "source": "source",
        "transform": "transform",
    }
    return places[where]
