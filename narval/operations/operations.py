"""All one may ask of a daemon, each once. Command line, control socket and embedding derive from it.

Every operation takes plain keyword arguments and gives plain data, in the forms that `docs/cli.md` shows.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from msgspec.structs import replace

from narval.definitions.action.definition import Action
from narval.definitions.library import Library
from narval.engines.commands import Answer
from narval.engines.events import Cancelled, OutputElement
from narval.engines.registry import is_runnable, runnable
from narval.errors import ElementError, PatternError, RequestError
from narval.memory.elements.canonical import elements_of
from narval.memory.elements.element import Element
from narval.memory.patterns.pattern import Bound, condition
from narval.operations import dot, history, json_forms, status, why
from narval.operations.lazy_table import LazyTable
from narval.operations.processes import OfProcesses, texts
from narval.operations.registry import Operation, check, described
from narval.operations.signals import attributes_of, say
from narval.runtime.agent.history import given, past
from narval.runtime.agent.loop import Delivery
from narval.runtime.agent.replay import definition_of, state_of
from narval.runtime.agent.run import Run
from narval.runtime.agent.turn import Turn
from narval.runtime.daemon.daemon import Daemon
from narval.runtime.system.time_slice import TimeSlice

LONG = 64 * 1024
"""Bytes of a document that is taken apart in a thread."""

SEVERAL = "Extra content at the end of the document"
"""What the parser says of a document with two roots."""


class Operations(OfProcesses):
    """The operations on one daemon."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.agent = daemon.agent

    async def invoke(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Do an operation by name. Raises RequestError where there is none, or it takes no such arguments."""
        operation = OPERATIONS.get(name)
        if operation is None:
            raise RequestError(f"there is no operation {name!r}; there are {', '.join(sorted(OPERATIONS))}")
        check(operation, arguments)
        await self.daemon.recorded()  # nobody is shown what is not recorded yet
        return await getattr(self, name)(**arguments)

    async def work(self, *, until_idle: bool = False, timeout: float | None = None) -> dict[str, Any]:
        """Be the daemon until stopped, or idle, or out of time; what happened, as `narval run` says it."""
        summary = await self.daemon.run(until_idle=until_idle, timeout=timeout)
        return {
            "idle": summary.idle,
            "timed_out": summary.timed_out,
            "failed": [json_forms.run(self.agent, run) for run in summary.failed],
            "later": [
                {"at": json_forms.moment(at), "what": json_forms.deed(self.agent, *key, deed)}
                for at, key, deed in summary.later
            ],
        }

    async def turn(self) -> None:
        """A turn comes to its end: the daemon is alive, and can record."""
        await self.daemon.submit(_nothing)

    def summary(self) -> str:
        """What the daemon does, in a line."""
        return f"{len(self.agent.active)} runs under way, {self.daemon.executor.counts.running} calls running"

    # --- the daemon -----------------------------------------------------------------------------------

    async def status(self) -> dict[str, Any]:
        """Is it alive, what does it do, and since when."""
        return status.status(self.daemon)

    async def stop(self) -> dict[str, Any]:
        """End the daemon well: calls under way have `stop_grace` seconds, the rest is for the next start."""
        self.daemon.request_stop()
        return {"stopping": True}

    async def reload(self) -> dict[str, Any]:
        """Read recipes, modules, schemas and settings now: whether they had changed, what is wrong."""
        changed = await self.daemon.reload()
        return {"changed": changed, "faults": [json_forms.fault(each) for each in self.daemon.faults]}

    async def log(self, after: int = 0, wait: float = 0.0, lines: int = 200) -> list[dict[str, Any]]:
        """The daemon's own log: the last lines, or those after a number."""
        found = self.daemon.logbook.lines(after, lines)
        while not found and wait > 0:
            wait = await self.daemon.logbook.grown(wait)
            found = self.daemon.logbook.lines(after, lines)
        return found

    # --- memory ---------------------------------------------------------------------------------------

    async def add(self, elements: list[bytes]) -> dict[str, Any]:
        """Add elements: of each document the root, or each child of a root `memory`."""
        found = [each for document in elements for each in await _taken_apart(document)]
        schemas, breath = self.daemon.schemas, TimeSlice()
        for each in found:
            _admit(schemas.refusal(each))
            await breath.take()

        def work(turn: Turn) -> list[int]:
            if turn.schemas is schemas:
                return [turn.add(each) for each in found]
            return _admitted(turn, found)

        return {"eids": await self.daemon.submit(work)}

    async def memory(
        self, xpath: str | None = None, context: int | None = None, current: bool = False
    ) -> list[dict[str, Any]]:
        """The elements that match a pattern (N9): all of memory, or the context of a run."""
        breath, found = TimeSlice(), []
        for each in self._looked_through(xpath, context, current):
            await breath.take()
            if each is not None:
                found.append(json_forms.element(self.agent, each))
        await self.daemon.recorded()  # what changed meanwhile is recorded as well
        return found

    async def count(
        self, xpath: str | None = None, context: int | None = None, current: bool = False
    ) -> dict[str, Any]:
        """How many elements match a pattern."""
        breath, count = TimeSlice(), 0
        for each in self._looked_through(xpath, context, current):
            await breath.take()
            count += each is not None
        return {"count": count}

    def elements(
        self, xpath: str | None = None, context: int | None = None, current: bool = False
    ) -> list[Element]:
        """The elements themselves; `current` leaves out those that have been replaced."""
        found = self._looked_through(xpath, context, current)
        return [element for element in found if element is not None]

    def _looked_through(
        self, xpath: str | None, context: int | None, current: bool
    ) -> Iterator[Element | None]:
        """What may match, one after another: the element if it does. Memory may change meanwhile."""
        memory = self.agent.memory
        bound = _bound(xpath) if xpath is not None else None
        if context is not None:
            eids = list(memory.contexts.of(self.run_of(context).eid))
        else:
            candidates = memory.index.candidates(bound) if bound is not None else None
            eids = list(memory if candidates is None else candidates)
        for eid in eids:
            element = memory.element(eid)
            fits = element is not None and (bound is None or bound.test(memory.tree(element)))
            yield element if fits and not (current and eid in memory.outdated) else None

    # --- runs -----------------------------------------------------------------------------------------

    async def start(
        self,
        name: str,
        elements: list[bytes] | None = None,
        wait: bool = False,
        timeout: float | None = None,
        each: bool = False,
        environment: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Start a run of `group.name`; the elements become its first context, or that of a run for each.

        A process may be given attributes: its first `environment`.
        """
        found = [given for document in elements or [] for given in _elements(document)]
        if each:
            runs = await self._start(name, [[one] for one in found], environment)
            return {"runs": [run.eid for run in runs]}
        [run] = await self._start(name, [found], environment)
        if wait:
            await self.daemon.ended(run, timeout)
        return json_forms.run(self.agent, run)

    async def _start(
        self, name: str, contexts: list[list[bytes]], environment: dict[str, Any] | None = None
    ) -> list[Run]:
        """A run for each context, in one turn."""
        if runnable(self.agent.library, name) is None and self.daemon.hot is not None:
            await self.daemon.reload()  # its file may have been saved a moment ago
        given = {key: text for key, text in texts(environment or {}).items() if text is not None}

        def work(turn: Turn) -> list[Run]:
            definition = runnable(turn.agent.library, name)
            if definition is None:
                raise RequestError(self._not_loaded(name) or _unknown(name, turn.agent.library))
            if given and definition.kind != "process":
                raise RequestError(f"{name} is a {definition.kind}: only a process has an environment")
            admitted = [tuple(_admitted(turn, each)) for each in contexts]
            begun = (turn.start(name, each, environment=given) for each in admitted)
            return [run for run in begun if run is not None]

        runs: list[Run] = await self.daemon.submit(work)
        return runs

    async def runs(
        self, state: str | None = None, kind: str | None = None, name: str | None = None
    ) -> list[dict[str, Any]]:
        """The runs there are, newest last; by the kind's own state or by phase."""
        return [
            json_forms.run(self.agent, run)
            for run in sorted(self.agent.runs.values(), key=lambda each: each.eid)
            if state in (None, run.status, run.phase)
            and kind in (None, run.kind)
            and name in (None, run.name)
        ]

    async def show(self, run: int, at: int | None = None) -> dict[str, Any]:
        """One run: its steps, transitions, context, errors; as it was after line `at` of its history."""
        found = self.run_of(run)
        if at is not None:
            return json_forms.past(self.agent, found, past(self.agent, self.daemon.store, found, at))
        state, definition = self._whole(found)
        return json_forms.shown(self.agent, found, definition, state, self.agent.memory.contexts.of(run))

    async def xml(self, run: int, at: int | None = None) -> dict[str, Any]:
        """One run as the element that memory shows, or would have shown after line `at` of its history."""
        found = self.run_of(run)
        if at is not None:
            before = past(self.agent, self.daemon.store, found, at)
            xml = found.engine.render(before.definition, before.state, before.context)
            return {"xml": Element(run, xml).with_eid().decode("utf-8")}
        element = self.agent.memory.element(found.eid)
        return {"xml": element.with_eid().decode("utf-8") if element is not None else ""}

    async def graph(self, run: int, at: int | None = None) -> dict[str, Any]:
        """One run as a graph, in the language of Graphviz; as it was after line `at` of its history."""
        found = self.run_of(run)
        if at is not None:
            before = past(self.agent, self.daemon.store, found, at)
            return {"dot": dot.dot(before.definition, before.state)}
        state, definition = self._whole(found)
        return {"dot": dot.dot(definition, state)}

    async def history(self, run: int, after: int = 0, wait: float = 0.0) -> list[dict[str, Any]]:
        """What happened in a run behind a number, in order; `wait` seconds for it if there is nothing yet."""
        found = self.run_of(run)
        lines = history.lines(self.daemon.store, found.eid, after)
        while not lines and wait > 0 and found.active:
            known = found.entries
            wait = await self.daemon.turned(wait)
            if found.entries != known or not found.active:
                lines = history.lines(self.daemon.store, found.eid, after)
        return lines

    async def why(self, run: int, id: str | None = None) -> dict[str, Any]:
        """What a run waits for, or why a part of it did not go on (N11)."""
        found = self.run_of(run)
        state, definition = self._whole(found)
        return why.explain(self.agent, found, definition, state, id)

    async def cancel(self, run: int, reason: str = "") -> dict[str, Any]:
        """End a run: its calls are given up."""
        found = self._active(run)
        self.daemon.post(Delivery(found.eid, Cancelled(0, 0.0, reason)))
        await self.daemon.submit(_nothing)
        return json_forms.run(self.agent, found)

    async def retry(self, run: int, step: str | None = None) -> dict[str, Any]:
        """Begin a run again from a step, as a new run of the definition as it is now: what was done is kept.

        Without a step, from that which failed.
        """
        found = self.run_of(run)
        if found.active:
            raise RequestError(f"run {run} of {found.name} is not over yet: it is {found.status}")
        before, engine = state_of(self.agent, self.daemon.store, found), found.engine
        used = list(given(self.daemon.store, found))

        def work(turn: Turn) -> Run:
            definition = turn.agent.library.get(engine.definition_kind, found.name)
            if definition is None:
                raise RequestError(self._not_loaded(found.name) or _unknown(found.name, turn.agent.library))
            resume = engine.plan_resume(definition, before, step, used, turn.element)
            resume = replace(resume, context=tuple(eid for eid in turn.context(run) if eid in turn.memory))
            kind = engine.definition_kind
            started = turn.start(found.name, resume.elements, kind=kind, resume=resume)
            assert started is not None, found.name
            return started

        return json_forms.run(self.agent, await self.daemon.submit(work))

    async def signal(
        self,
        run: int,
        name: str,
        elements: list[bytes] | None = None,
        arguments: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """Say something by name to a run; elements and arguments come with it. What it made of that, once
        recorded.
        """
        found = self._active(run)
        if not (name.strip() and name.isprintable()):
            raise RequestError(f"expected the name of a signal, such as approve, got {name!r}")
        attributes = attributes_of(arguments or {})
        raws = tuple(OutputElement(each) for document in elements or [] for each in _elements(document))
        answer: list[Answer] = []
        await self.daemon.submit(lambda turn: answer.extend(say(turn, found.eid, name, raws, attributes)))
        if not answer:
            raise RequestError(f"run {run} of {found.name} was not told: it is {found.status}")
        problem, value = answer[0].problem, answer[0].value
        if problem is not None:
            raise RequestError(f"run {run} of {found.name} did not take {name}: {problem.message}")
        return {"run": run, "signal": name, **(value or {})}

    async def wait(self, run: int, timeout: float | None = None) -> dict[str, Any]:
        """Wait until a run is over."""
        found = self.run_of(run)
        await self.daemon.ended(found, timeout)
        return json_forms.run(self.agent, found)

    # --- definitions ----------------------------------------------------------------------------------

    async def definitions(self) -> dict[str, Any]:
        """What is loaded, from which file, since when; and the faults of what did not load."""
        loaded = {state.path: state.loaded for state in self.daemon.loaded.files}
        rows = [
            {
                "kind": each.kind,
                "name": each.full_name,
                "path": each.path,
                "line": each.line,
                "digest": each.digest,
                "loaded": json_forms.moment(loaded[each.path]) if loaded.get(each.path) else None,
                "description": json_forms.description(each.descriptions),
            }
            for each in sorted(self.agent.library, key=lambda one: (one.kind, one.full_name))
        ]
        return {"definitions": rows, "faults": [json_forms.fault(each) for each in self.daemon.faults]}

    async def actions(self) -> list[dict[str, Any]]:
        """The actions there are, with what they take and give."""
        found = sorted(self.agent.library.of("action").items())
        return [json_forms.action(each) for _, each in found if isinstance(each, Action)]

    # --- inside ---------------------------------------------------------------------------------------

    def run_of(self, eid: int) -> Run:
        """The run of that number. Raises RequestError."""
        run = self.agent.runs.get(eid)
        if run is not None:
            return run
        element = self.agent.memory.element(eid)
        if element is not None:
            raise RequestError(
                f"{eid} is an element ({element.name}), not a run; narval memory '*[@eid={eid}]' shows it"
            )
        raise RequestError(f"there is no run {eid}; `narval runs` lists those there are")

    def _active(self, eid: int) -> Run:
        """The run of that number, which is not over. Raises RequestError."""
        run = self.run_of(eid)
        if not run.active:
            raise RequestError(f"run {eid} of {run.name} is over already: it is {run.status}")
        return run

    def _not_loaded(self, name: str) -> str | None:
        """Why a file that is named like the definition, or its group, did not give it; None without one."""
        home, words = self.daemon.home, name.split(".")
        if home is None:
            return None
        for fault in sorted(self.daemon.faults):
            path = PurePath(fault.path)
            if path.parts[0] == home.recipes.name and path.stem in words:
                return f"{path} did not load: line {fault.line}: {fault.message}"
        return None

    def _whole(self, run: Run) -> tuple[Any, Any]:
        store = self.daemon.store
        return state_of(self.agent, store, run), definition_of(self.agent, store, run)


def _admitted(turn: Turn, elements: list[bytes]) -> list[int]:
    """The eids of elements from outside, all or none of them in memory (N7)."""
    for each in elements:
        _admit(turn.schema_fault(each))
    return [turn.add(each) for each in elements]


def _admit(refusal: str | None) -> None:
    if refusal is not None:
        raise ElementError("invalid", f"refused by its schema: {refusal}")


def _nothing(turn: Turn) -> None:
    """A turn, so that what was posted before it has been told."""


def _bound(xpath: str) -> Bound:
    """A pattern to look for in memory. Raises PatternError for one with variables: they are a recipe's."""
    found = condition(xpath)
    if found.variables:
        raise PatternError(xpath, f"${min(found.variables)} is known only in a recipe")
    return found.bind({})


async def _taken_apart(document: bytes) -> list[bytes]:
    """The elements of a document from outside: of a long one without holding up the loop."""
    if len(document) < LONG:
        return _elements(document)
    return await asyncio.to_thread(_elements, document)


def _elements(document: bytes) -> list[bytes]:
    try:
        return elements_of(document)
    except ElementError as error:
        hint = "; put several elements within <memory>…</memory>" if SEVERAL in str(error) else ""
        message = f"{error.line}:{error.column}: {error}{hint}"
        raise ElementError(error.kind, message, error.line, error.column) from None


def _unknown(name: str, library: Library) -> str:
    other = library.find(name)
    if other is not None:
        article = "an" if other.kind[0] in "aeiou" else "a"
        return f"{name} is {article} {other.kind}: it is called by a step, not started"
    names = [each.full_name for each in library if is_runnable(each.kind)]
    near = difflib.get_close_matches(name, names, 1)
    hint = f"; did you mean {near[0]}?" if near else "; `narval definitions` lists what is loaded"
    return f"there is no definition {name}{hint}"


# --- the table ------------------------------------------------------------------------------------------

_NAMES = (
    "status", "stop", "reload", "log", "add", "memory", "count", "start", "runs", "show", "xml", "graph",
    "history", "why", "cancel", "retry", "signal", "wait", "definitions", "actions",
    "complete", "backtrack", "tokens", "environment", "execute_queued", "execute_token", "reevaluate",
    "retry_arc_token", "finalize", "listen", "unlisten",
)  # fmt: skip


OPERATIONS: Mapping[str, Operation] = LazyTable(_NAMES, lambda name: described(getattr(Operations, name)))

__all__ = ["OPERATIONS", "Operation", "Operations", "PatternError"]
