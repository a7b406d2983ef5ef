"""A real executor on a loop, and modules that are written for one test."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from narval.calls.book import CallBook
from narval.calls.context import CallContext, Target
from narval.calls.executor import Executor
from narval.calls.output_capture import capture_output
from narval.calls.record import CallListener, CallRecord, Outcome
from narval.calls.workers import transforms
from narval.core.elements.element import Element
from narval.core.engines.commands import Call
from narval.core.engines.events import OutputElement
from narval.files.settings import CallLimits

Given = Element | list[Element] | None


@pytest.fixture
def logged() -> Iterator[None]:
    """What actions print goes to the log, as in a daemon."""
    restore = capture_output()
    yield
    restore()


def number_of(agent: str) -> int:
    """The number that an agent of this name has in these tests."""
    return crc32(agent.encode())


class Module:
    """The text of an action module, which any place can run."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = path, text
        path.write_text(text)

    def function(self, name: str) -> Callable[..., Any]:
        namespace: dict[str, Any] = {}
        exec(compile(self.text, str(self.path), "exec"), namespace)
        return namespace[name]


class Listening(CallListener):
    """Takes down what a source yields."""

    def __init__(self, answered: Callable[[Outcome], None], produced: list[list[bytes]]) -> None:
        super().__init__(answered)
        self.yielded = produced

    async def produced(self, record: CallRecord, elements: list[OutputElement]) -> None:
        self.yielded.append([raw.xml for raw in elements])


class Calls:
    """Starts calls on an executor, and waits for what becomes of them."""

    def __init__(self, limits: CallLimits) -> None:
        self.runner = asyncio.Runner()
        self.changes = 0
        self.is_shared = False
        self.produced: list[list[bytes]] = []
        self.book = self.runner.run(self._make(limits))
        self._numbers = itertools.count(1)

    async def _make(self, limits: CallLimits) -> CallBook:
        return CallBook(Executor(limits, changed=self._changed, is_shared=lambda: self.is_shared))

    def _changed(self) -> None:
        self.changes += 1

    def context(
        self, what: Module | Callable[..., Any] | bytes, name: str = "act", **fields: Any
    ) -> CallContext:
        where = fields.pop("where", "worker" if isinstance(what, Module) else "thread")
        target: dict[str, Any] = {"function": what}
        if isinstance(what, bytes):
            where = "transform"
            target = {"source": fields.pop("source", what), "runner": transforms.__name__}
        elif isinstance(what, Module):
            target = {"module_path": str(what.path), "function_name": name}
            if where != "worker":
                target["function"] = what.function(name)
        for field in ("action", "module_path", "code"):
            if field in fields:
                target[field] = fields.pop(field)
        fields = {"id": f"call-{next(self._numbers)}", "run": 7, "step": "send", **fields}
        return CallContext(target=Target(where=where, **{"action": "m.act", **target}), **fields)

    def start(self, call: CallContext) -> asyncio.Future[Outcome]:
        """The call is started when this returns."""
        return self.runner.run(self._start(call))

    async def _start(self, call: CallContext) -> asyncio.Future[Outcome]:
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.ask_for(call, Listening(outcome.set_result, self.produced))
        return outcome

    def ask_for(self, call: CallContext, listener: CallListener, asked: Call | None = None) -> None:
        """Ask for a call, on the loop."""
        self.book.of(number_of(call.agent)).start(call, asked=asked, listener=listener)

    def find(self, id: str) -> CallRecord | None:
        """The record of a call that has no answer yet."""
        return next((record for record in self.book if record.call.id == id), None)

    def abandon(self, id: str) -> None:
        """Give a call up that is under way."""
        record = self.find(id)
        assert record is not None
        self.wait(self._abandon(record))

    async def _abandon(self, record: CallRecord) -> None:
        self.book.of(number_of(record.call.agent)).abandon(record)

    def ask(self, what: Module | Callable[..., Any] | bytes, name: str = "act", **fields: Any) -> Outcome:
        """Start a call, and wait for its outcome."""
        return self.outcome(self.start(self.context(what, name, **fields)))

    def outcome(self, future: asyncio.Future[Outcome]) -> Outcome:
        return self.wait(asyncio.wait_for(future, None))

    def wait(self, awaitable: Awaitable[Any]) -> Any:
        async def waiting() -> Any:
            return await awaitable

        return self.runner.run(waiting())

    def until(self, condition: Callable[[], bool]) -> None:
        async def polling() -> None:
            while not condition():
                await asyncio.sleep(0.005)

        self.runner.run(polling())

    def close(self, grace: float = 0.0) -> None:
        self.runner.run(self.book.close(grace))


@pytest.fixture
def make_calls() -> Iterator[Callable[..., Calls]]:
    made: list[Calls] = []

    def make(**limits: Any) -> Calls:
        made.append(Calls(CallLimits(**limits)))
        return made[-1]

    yield make
    for calls in made:
        calls.close()
        calls.runner.close()


@pytest.fixture
def calls(make_calls: Callable[..., Calls]) -> Calls:
    return make_calls(patience=0.1)


@pytest.fixture(scope="module")
def shared_calls() -> Iterator[Calls]:
    """For tests that leave nothing behind: its workers are started once."""
    calls = Calls(CallLimits(workers=1))
    yield calls
    calls.close()
    calls.runner.close()


@pytest.fixture
def module(tmp_path: Path) -> Callable[[str], Module]:
    return lambda text: Module(tmp_path / "mail.py", text)
