"""Hands each outer command to the part that does it, and brings back what comes of it as an event.

What comes of it at once is given back to whoever has it performed; all else is posted for a later turn.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from narval.definitions.action.definition import Action
from narval.definitions.library import Definition, Library
from narval.definitions.process.code import Code
from narval.definitions.transform.definition import Transform
from narval.engines.commands import Call, CancelCall, Outer
from narval.engines.events import Caller, CallStarting, Cancelled, Failure, OutputElement, Produced, Returned
from narval.engines.registry import runnable_kinds
from narval.errors import ActionError
from narval.memory.elements.element import Element
from narval.runtime.agent.agent import AgentState
from narval.runtime.agent.loop import Delivery, Request
from narval.runtime.agent.run import Run
from narval.runtime.agent.turn import Turn
from narval.runtime.calls.backend import Outcome, Task, Where
from narval.runtime.calls.context import CurrentCall
from narval.runtime.calls.executor import Executor
from narval.runtime.calls.process_code.tasks import SCRIPT, NodeTask, node_task, script_task
from narval.runtime.home.modules import Lease, key_of

log = logging.getLogger("narval.perform")

Post = Callable[[Delivery | Request], None]
INTERRUPTED = Failure(
    "interrupted", "the daemon stopped while the call was under way, and it is not to be repeated", final=True
)


class LoadedModules(NamedTuple):
    """What the actions and other code of a library are made of; `leases` keep their modules importable."""

    functions: Mapping[str, Callable[..., Any]]
    sources: Mapping[str, bytes]
    leases: frozenset[Lease] = frozenset()


class _Prepared(NamedTuple):
    """A task but for what differs from call to call; the ids of the inputs, and those that take a list."""

    task: Task
    inputs: tuple[str, ...]
    lists: frozenset[str]
    inline: bool = False


Given = dict[str, Element | list[Element] | None]
"""What a call is given, by input id."""

_Targets = dict[tuple[str, str], _Prepared]
"""What is prepared, by kind and name."""

_A_PROGRAM = _Prepared(Task(call="", run=0, step="", action="", where="program"), (), frozenset())
_UNLIMITED = frozenset({"source", "program"})
"""What may go on for ever unless its step or state says otherwise: others have the limit of the home."""


class Dispatcher:
    """Performs the commands of one agent.

    `functions` are the Python functions of actions by full name, `sources` the text of the module of each;
    `stubs` take the place of actions in tests and dry runs. `prefix` makes call ids unique across homes.
    """

    def __init__(
        self,
        agent: AgentState,
        executor: Executor,
        post: Post,
        *,
        home: Path | None,
        prefix: str,
        timeout: float | None,
    ) -> None:
        self.agent, self.executor = agent, executor
        self.functions: Mapping[str, Callable[..., Any]] = {}
        self.sources: Mapping[str, bytes] = {}
        self._code: WeakKeyDictionary[Library, LoadedModules] = WeakKeyDictionary()
        self.stubs: dict[str, Callable[..., Any]] = {}
        self._prepared: WeakKeyDictionary[Library, _Targets] = WeakKeyDictionary()
        self._prepared_last: Library | None = None
        self._targets: _Targets = {}
        """Those of the library that was asked for last."""
        self._in_flight: set[str] = set()
        """Calls that the executor has not answered yet, by their outside id."""
        self.is_stopping = False
        self._timeout = timeout
        self._post, self._home, self._prefix = post, home, prefix
        self._calls: dict[str, Callable[[Run, Call], Returned | None]] = {
            "action": self._action,
            "transform": self._action,
            "program": self._program,
            "node": self._node,
            **dict.fromkeys(runnable_kinds(), self._nested),
        }

    def stop(self) -> None:
        """Perform nothing more: what is asked from now on is left to the next daemon (N34)."""
        self.is_stopping = True

    def limit(self, timeout: float | None) -> None:
        """Give calls without a time limit of their own so many seconds; None: no limit."""
        self._timeout = timeout

    def dispatch(self, run: Run, command: Outer) -> Returned | None:
        """Perform a command; when the daemon is stopping, leave it to the next one (N34).

        What a call comes to is given back, if it is over at once; otherwise it will be posted.
        """
        if self.is_stopping:
            return None
        try:
            if isinstance(command, Call):
                return self._calls[command.kind](run, command)
            if isinstance(command, CancelCall):
                self._abandon(run, command)
            return None  # whoever asked has an Answer from the turn, and is told once that is recorded
        except Exception as error:
            log.exception("%s of run %d could not be performed", type(command).__name__, run.eid)
            if not isinstance(command, Call):
                return None
            return _refused(command, _unmade(error))

    def resume(self) -> None:
        """Perform again what was under way when the last daemon stopped (N35, N29)."""
        answered = {event.call for _, _, event in self.agent.queue if isinstance(event, Returned)}
        for run in list(self.agent.runs.active.values()):
            if not self.agent.runs.is_awaited(run):
                self._cancel(run.eid, "its caller is over")
            for call in list(run.calls.values()):
                if call.call not in answered:
                    self._resume_call(run, call)

    def _resume_call(self, run: Run, call: Call) -> None:
        child = self.agent.runs.by_call.get(call.call)
        if call.call in run.abandoned:
            if child is not None:
                self._cancel(child, f"run {run.eid} gave it up")
            else:
                self._post(Delivery(run.eid, Returned(0, 0.0, call.call, abandoned=True)))
        elif child is not None:
            return  # it goes on by itself
        else:
            back = _refused(call, INTERRUPTED) if call.begun else self.dispatch(run, call)
            if back is not None:
                self._post(Delivery(run.eid, back))

    def outside_id(self, call: str) -> str:
        """The id of a call as actions see it: the same when tried again, unique across homes."""
        return f"{self._prefix}.{call}"

    def busy(self) -> bool:
        """Whether some call may yet go on by itself: a source that has caught up waits for the world."""
        return not all(self.executor.caught_up(call) for call in self._in_flight)

    def use(self, library: Library, code: LoadedModules) -> None:
        """From now on this is the code of the library's actions; older code is kept while runs need it."""
        self.functions, self.sources = code.functions, code.sources
        self._code[library] = code
        self._forget_prepared()

    def _code_of(self, run: Run, definition: Definition) -> LoadedModules:
        """The modules that belong to a version of an action, or of other code."""
        if run.library is not None and run.library.get(definition.kind, definition.full_name) is definition:
            code = self._code.get(run.library)
            if code is not None:
                return code
        return LoadedModules(self.functions, self.sources)

    def function_of(self, run: Run, definition: Definition) -> Any:
        """The function or class of code that modules declare, in the version that counts; or None."""
        if not isinstance(definition, Action | Code):
            return None
        return self._code_of(run, definition).functions.get(key_of(definition))

    # --- calls ----------------------------------------------------------------------------------------

    def _nested(self, run: Run, call: Call) -> None:
        """A run of its own answers."""
        self._post(Request(partial(_begin, run, call), _ignore))

    def _program(self, run: Run, call: Call) -> Returned | None:
        inputs = self._inputs(call, _A_PROGRAM)
        if isinstance(inputs, Failure):
            return _refused(call, inputs)
        self._begin_task(run, call, self._task(run, call, _A_PROGRAM, inputs))
        return None

    def _action(self, run: Run, call: Call) -> Returned | None:
        """An action is called, or a stylesheet applied."""
        prepared = self._prepare(run, call)
        if prepared is None:
            return _refused(call, Failure("unknown-target", f"there is no {call.kind} named {call.name}"))
        inputs = self._inputs(call, prepared) if prepared.inputs else {}
        if isinstance(inputs, Failure):
            return _refused(call, inputs)
        if prepared.inline and (outcome := self._at_once(run, call, prepared.task, inputs)) is not None:
            return _returned(call.call, outcome)
        self._begin_task(run, call, self._task(run, call, prepared, inputs))
        return None

    def _at_once(self, run: Run, call: Call, task: Task, inputs: Given) -> Outcome | None:
        """What an inline call comes to, if it may be answered here and now."""
        if call.on_restart == "error":
            return None
        id = self.outside_id(call.call)
        current = CurrentCall(id, run.eid, call.step, self._home, attempt=call.attempt)
        return self.executor.at_once(task, inputs, current)

    def _node(self, run: Run, call: Call) -> Returned | None:
        """A node is executed, or backtracked: by its script, or by the user's class for its type."""
        if call.name == SCRIPT:
            timeout = call.timeout if call.timeout is not None else self._timeout
            return self._begin_node(run, call, script_task(run, call, timeout))
        definition = self.agent.lookup.definition(run, "node-type", call.name)
        code = self.function_of(run, definition) if definition is not None else None
        if not isinstance(definition, Code) or code is None:
            return _refused(
                call, Failure("unknown-target", f"there is no node type named {call.name}", final=True)
            )
        timeout = call.timeout if call.timeout is not None else self._timeout
        stub = self.stubs.get(call.name)
        if stub is not None:
            where: Any = _where_of(stub)
            code, definition = _stand_in(stub), dataclasses.replace(definition, where=where)
        try:
            node = node_task(run, call, definition, code, timeout)
        except ActionError as error:
            return _refused(call, Failure(error.kind, str(error), final=error.final))
        source = self._code_of(run, definition).sources.get(definition.path)
        return self._begin_node(run, call, node, self._path_of(definition), definition.function, source)

    def _begin_node(
        self,
        run: Run,
        call: Call,
        node: NodeTask,
        path: str = "",
        function_name: str = "",
        source: bytes | None = None,
    ) -> Returned | None:
        task = Task(
            call=self.outside_id(call.call),
            run=run.eid,
            step=call.step,
            attempt=call.attempt,
            family=self.agent.runs.top(run),
            action=f"the script of node {call.step}" if call.name == SCRIPT else call.name,
            where=node.where,
            function=node.function,
            module_path=path,
            function_name=function_name,
            source=source,
            timeout=node.timeout,
            home=self._home,
            payload=node.payload,
        )
        if node.where == "inline" and (outcome := self._at_once(run, call, task, {})) is not None:
            return _returned(call.call, node.finished(outcome))
        self._begin_task(run, call, task, node.finished)
        return None

    def _path_of(self, definition: Definition) -> str:
        """Where the module of some code is."""
        return str(self._home / definition.path) if self._home is not None else definition.path

    def _begin_task(
        self, run: Run, call: Call, task: Task, finished: Callable[[Outcome], Outcome] | None = None
    ) -> None:
        done, produced = partial(self._done, run.eid, call.call), partial(self._produced, run.eid, call.call)
        if finished is not None:
            done = partial(_finish, finished, done)
        self._in_flight.add(task.call)
        try:
            announce = partial(self._announce, run, call.call) if call.on_restart == "error" else None
            self.executor.start(task, done, produced, announce)
        except Exception:
            self._in_flight.discard(task.call)
            raise

    def stub(self, name: str, function: Callable[..., Any]) -> None:
        """Let a function take the place of an action, in tests and dry runs."""
        self.stubs[name] = function
        self._forget_prepared()

    def _prepare(self, run: Run, call: Call) -> _Prepared | None:
        """What all calls of one target have in common, found once for each library; None: there is none."""
        library = run.library if run.library is not None else self.agent.library
        if library is not self._prepared_last:
            self._prepared_last, self._targets = library, self._prepared.setdefault(library, {})
        found = self._targets.get((call.kind, call.name))
        if found is None:
            definition = self.agent.lookup.definition(run, call.kind, call.name)
            if not isinstance(definition, Action | Transform):
                return None
            found = self._targets[call.kind, call.name] = self._prepared_for(run, definition)
        return found

    def _forget_prepared(self) -> None:
        """Targets are others now."""
        self._prepared.clear()
        self._prepared_last = None

    def _prepared_for(self, run: Run, definition: Action | Transform) -> _Prepared:
        where: Where = "transform"
        function, source, function_name = None, definition.xml, ""
        if isinstance(definition, Action):
            code = self._code_of(run, definition)
            function, function_name = code.functions.get(definition.full_name), definition.function
            where, source = definition.where, code.sources.get(definition.path, b"")
        stub = self.stubs.get(definition.full_name)
        if stub is not None:
            function, where = stub, _where_of(stub)
        task = Task(
            call="",
            run=0,
            step="",
            action=definition.full_name,
            where=where,
            function=function,
            module_path=self._path_of(definition),
            function_name=function_name,
            source=source,
            home=self._home,
        )
        lists = frozenset(each.id for each in definition.prototype.inputs if each.list)
        inputs = tuple(each.id for each in definition.prototype.inputs)
        return _Prepared(task, inputs, lists, where == "inline")

    def _task(self, run: Run, call: Call, prepared: _Prepared, inputs: Given) -> Task:
        timeout = call.timeout if call.timeout is not None else self._timeout
        return replace(
            prepared.task,
            call=self.outside_id(call.call),
            run=run.eid,
            step=call.step,
            attempt=call.attempt,
            family=run.eid if run.caller is None else self.agent.runs.top(run),
            inputs=inputs,
            timeout=None if prepared.task.where in _UNLIMITED and call.timeout is None else timeout,
            action=prepared.task.action or call.name,
            program=call.program,
            home=self._home,
        )

    def _inputs(self, call: Call, prepared: _Prepared) -> Given | Failure:
        """The elements a call is given, by input id; or what is wrong, if one is not there any more."""
        given: Given = {each: [] if each in prepared.lists else None for each in prepared.inputs}
        for slot, eids in call.inputs:
            elements = []
            for eid in eids:
                element = self.agent.memory.element(eid)
                if element is None:
                    return Failure("forgotten", f"element {eid} was forgotten", final=True)
                elements.append(element)
            # A step may have tightened a list to one element (N14): the function still gets a list.
            given[slot] = elements if slot in call.listed or slot in prepared.lists else elements[0]
        return given

    def _announce(self, run: Run, call: str, go: Callable[[], None]) -> None:
        """A call that must not be made twice is begun when the next daemon would know that it was (N29)."""
        self._post(Delivery(run.eid, CallStarting(0, 0.0, call), partial(self._begin, run, call, go)))

    def _begin(self, run: Run, call: str, go: Callable[[], None], error: BaseException | None) -> None:
        asked = run.calls.get(call)
        if error is not None or asked is None or call in run.abandoned:
            if not self.executor.abandon(self.outside_id(call)):  # an inline call is under way nowhere
                self._in_flight.discard(self.outside_id(call))
            return
        try:
            go()
        except Exception as refusal:
            log.exception("call %s of run %d could not be begun", call, run.eid)
            self._post(Delivery(run.eid, _refused(asked, _unmade(refusal))))

    def _done(self, run: int, call: str, outcome: Outcome) -> None:
        self._in_flight.discard(self.outside_id(call))
        self._post(Delivery(run, _returned(call, outcome)))

    async def _produced(self, run: int, call: str, elements: list[OutputElement]) -> None:
        """A source has elements: it goes on when they are recorded (N36)."""
        recorded = asyncio.get_running_loop().create_future()
        event = Produced(0, 0.0, call, tuple(elements))
        self._post(Delivery(run, event, partial(_settle, recorded)))
        await recorded

    # --- the others -----------------------------------------------------------------------------------

    def _abandon(self, run: Run, command: CancelCall) -> None:
        child = self.agent.runs.by_call.get(command.call)
        if child is not None:
            self._cancel(child, f"run {run.eid} gave it up")
        else:
            self.executor.abandon(self.outside_id(command.call))

    def _cancel(self, run: int, reason: str) -> None:
        self._post(Delivery(run, Cancelled(0, 0.0, reason)))


def _begin(run: Run, call: Call, turn: Turn) -> None:
    """The run that answers a call begins, unless it has begun already, or nobody waits for it any more."""
    if call.call in turn.agent.runs.by_call or call.call not in run.calls:
        return
    if call.call in run.abandoned:
        turn.tell(run.eid, Returned(0, 0.0, call.call, abandoned=True))
        return
    caller = Caller(run.eid, call.step, call.call, call.nearby)
    environment: Any = (call.payload or {}).get("environment")
    if turn.start(call.name, call.elements, kind=call.kind, caller=caller, environment=environment) is None:
        problem = Failure("unknown-target", f"there is no {call.kind} named {call.name}")
        turn.tell(run.eid, Returned(0, 0.0, call.call, problem=problem))


def _returned(call: str, outcome: Outcome) -> Returned:
    """A call is over."""
    elements = tuple(outcome.elements)
    return Returned(0, 0.0, call, elements, (), outcome.problem, outcome.abandoned, outcome.value)


def _refused(call: Call, problem: Failure) -> Returned:
    """A call could not be made."""
    return Returned(0, 0.0, call.call, problem=problem)


def _unmade(error: Exception) -> Failure:
    return Failure("internal-error", f"narval could not make the call: {error!r}")


def _finish(
    finished: Callable[[Outcome], Outcome], done: Callable[[Outcome], None], outcome: Outcome
) -> None:
    done(finished(outcome))


def _settle(recorded: asyncio.Future[None], error: BaseException | None) -> None:
    if recorded.done():
        return
    if error is None:
        recorded.set_result(None)
    else:
        recorded.set_exception(error)


def _ignore(value: Any, error: Any) -> None:
    """Nobody waits for this answer."""


def _stand_in(stub: Callable[..., Any]) -> type:
    """A node type whose hooks are a stub, which is called with the token."""
    hooks = {hook: staticmethod(stub) for hook in ("execute", "backtrack")}
    return type("Stub", (), hooks)


def _where_of(function: Callable[..., Any]) -> Where:
    """Where a stub runs: in the loop itself, in one way or another."""
    if inspect.isasyncgenfunction(function):
        return "source"
    return "async" if inspect.iscoroutinefunction(function) else "inline"
