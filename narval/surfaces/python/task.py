"""Programs in Python as tasks (K48–K60): `from narval import task`.

The functions here apply to the current task: that of the running action, else the one whose handle is in
NARVAL_TASK. A separate program begins a task by `init`, or has `run` do everything. Where the source has an
error value of -1, they raise exceptions: `TaskRefusedError`, `RequestError`, `DaemonGoneError`.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from lxml import etree

from narval.calls.context import current_call
from narval.core.elements.canonical import text_bytes
from narval.core.elements.element import Element
from narval.core.errors import DaemonGoneError, RequestError, TaskRefusedError
from narval.files.home import Home
from narval.surfaces.control.client import Client
from narval.surfaces.control.task_handle import FOR_GOOD, SLICE, TASK, handle_in

Given = str | bytes | Element | None


class WorkObject:
    """An object of a task: its element, until it is given away (K59)."""

    def __init__(self, element: Element, case: int) -> None:
        self._element, self.case = element, case
        self._gone = ""

    @property
    def element(self) -> Element:
        """The element. Raises TaskRefusedError after the object was given away."""
        if self._gone:
            raise TaskRefusedError("gone", f"object {self._element.eid} is no longer yours: {self._gone}")
        return self._element

    @property
    def eid(self) -> int:
        """The number of the element."""
        return self.element.eid

    @property
    def xml(self) -> bytes:
        """Its bytes."""
        return self.element.xml

    @property
    def attributes(self) -> Mapping[str, str]:
        """The attributes of its root."""
        return self.element.attributes

    @property
    def text(self) -> str:
        """All text within it, joined."""
        return self.element.text

    def tree(self) -> etree._Element:
        """A fresh lxml copy: altering it has no other effect; use the task's `replace` for that."""
        return self.element.tree()

    def select(self, expression: str) -> Any:
        """The result of an XPath 1.0 expression from the root of the element, as lxml gives it."""
        return self.element.select(expression)

    def xpath(self, expression: str) -> Any:
        """The result of an XPath 1.0 expression from above the element, as lxml gives it. Use `select`."""
        return self.element.xpath(expression)

    def give_away(self, why: str) -> None:
        """Mark it as no longer an object of the task."""
        self._gone = self._gone or why


class ProgramTask:
    """A task, for the program that works as it; as a context manager it ends with the block (K55)."""

    def __init__(self, handle: str, home: str | Path | None = None, agent: str = "") -> None:
        self.handle, self._home, self._agent = handle, home, agent
        self.workobject: WorkObject | None = None
        self._is_down = False

    def __enter__(self) -> ProgramTask:
        return self

    def __exit__(self, *error: object) -> None:
        if not self._is_down:
            self.down()

    def get_work_object(self, timeout: float | None = None) -> WorkObject | None:
        """The next object of the queue (K57), with the task in its initial state; None after `timeout`
        seconds.

        Without a timeout it waits until there is one.
        """
        left = timeout
        while True:
            wait = SLICE if left is None else min(SLICE, left)
            answer = self._ask("task_get", wait=wait)
            left = None if left is None else left - wait
            if answer["object"] is not None or (left is not None and left <= 0):
                return self._has(answer)

    def _has(self, answer: Mapping[str, Any]) -> WorkObject | None:
        """Take the object of an answer."""
        before, eid = self.workobject, answer["object"]
        if eid is None:
            self.workobject = None
        elif before is None or before.element.eid != eid:
            self.workobject = WorkObject(Element(eid, answer["xml"].encode()), answer["case"] or 0)
        return self.workobject

    def assert_(self, state: str) -> str:
        """Move along an edge to a state (K49); returns the new state of the task. A terminal state routes the
        object, which is then no longer an object of the task.
        """
        answer = self._ask("task_assert", state=state, wait=FOR_GOOD)
        return self._moved(answer)

    def _moved(self, answer: Mapping[str, Any]) -> str:
        if not answer.get("object") and self.workobject is not None:
            self.workobject.give_away(f"task {answer['task']} has come to {answer['state']}")
            self.workobject = None
        return str(answer["state"])

    def raise_event(
        self,
        event: str,
        name: str = "",
        *parameters: str,
        mode: Literal["", "sync", "async"] = "",
        element: Given = None,
        with_object: bool = False,
        users: Sequence[str] = (),
        roles: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Raise an event within the task (K51), a global one (K41), or one at the type `name` (K52).

        It may carry an element, or with `with_object` the task's own object, which is then no longer an
        object of the task. For a synchronous event, `result` is done, expired or failed.
        """
        elements = [_bytes(element)] if element is not None else []
        more = {"users": list(users), "roles": list(roles), "elements": elements, "with_object": with_object}
        texts = [str(parameter) for parameter in parameters]
        answer: dict[str, Any] = self._ask(
            "task_raise", event=event, name=name, parameters=texts, mode=mode, wait=FOR_GOOD, **more
        )
        if "state" in answer:
            self._moved(answer)
        elif with_object and self.workobject is not None:
            self.workobject.give_away(f"it went with the event {event}")
            self.workobject = None
        return answer

    def wait_on_event(self, event: str, timeout: float = 0) -> dict[str, Any] | None:
        """Wait until an event is raised for the task (K53): returns its number and `parameters`, or None
        after `timeout` seconds; 0 means no limit (KA11).
        """
        return self._waited(event, timeout, end=False)

    def wait_on_event_end(self, event: str, timeout: float = 0) -> dict[str, Any] | None:
        """Wait, like `wait_on_event`, until an event's action was done for the task (K54); returns its
        `result`.
        """
        return self._waited(event, timeout, end=True)

    def _waited(self, event: str, timeout: float, *, end: bool) -> dict[str, Any] | None:
        limit = timeout if timeout > 0 else None
        answer = self._ask("task_wait", event=event, end=end, timeout=limit, wait=FOR_GOOD)
        return None if answer["timed_out"] or answer["event"] is None else answer

    def get_current_state(self) -> str:
        """The current state of the task (K50); "" without an object."""
        return self._ask("task_state")["state"] or ""

    def current_object(self) -> WorkObject | None:
        """The current object of the task; None without one."""
        return self._has(self._ask("task_state"))

    def replace(self, element: str | bytes | Element) -> WorkObject:
        """Replace the object by a new version (K18)."""
        if self.workobject is None and self.current_object() is None:
            raise TaskRefusedError("no-object", "expected an object to be replaced; get one first")
        assert self.workobject is not None
        before = self.workobject
        self._ask("add", elements=[_bytes(element)], replace=before.eid)
        before.give_away("another version has taken its place")
        self.workobject = None
        current = self.current_object()
        assert current is not None
        return current

    def down(self) -> None:
        """End the task; its object, if any, goes back to the queue."""
        self._ask("task_down")
        self._is_down = True
        if self.workobject is not None:
            self.workobject.give_away("the task is down")
            self.workobject = None

    def _ask(self, operation: str, **arguments: Any) -> Any:
        """The answer of the home's daemon. Raises NarvalError."""
        named = {"task": self.handle} if operation.startswith("task_") else {}
        return _ask(self._home, self._agent, "", operation, **named, **arguments)


# --- beginning --------------------------------------------------------------------------------------------


def init(
    name: str,
    user: str = "",
    role: str = "",
    *,
    lease: float | None = None,
    home: str | Path | None = None,
    agent: str = "",
) -> ProgramTask:
    """Begin a task of a type, in a role; `user` is for callers that may act in another's name.

    `home` is the folder whose daemon is asked, by default that of NARVAL_HOME. The task becomes current.
    """
    global _own
    limits = {} if lease is None else {"lease": lease}
    answer = _ask(home, agent, user, "task_init", name=name, role=role, **limits)
    _own = ProgramTask(answer["task"], home, agent)
    return _own


def current() -> ProgramTask:
    """The current task: that of the running action, else that begun by `init`, else that of NARVAL_TASK.

    Raises RequestError without any.
    """
    call = current_call()
    if call is not None:
        if call.home is None:
            raise RequestError("a home in memory has no daemon that a task could ask; run it from a folder")
        return ProgramTask(f"{call.run}.{call.id}", call.home, call.agent)
    if _own is not None:
        return _own
    handle = handle_in(os.environ)
    if not handle:
        raise RequestError(f"there is no task at hand: call task.init(TYPE), or set {TASK}")
    return ProgramTask(handle)


_own: ProgramTask | None = None
"""The last task that this program began."""


def run(
    name: str,
    main: Callable[[WorkObject], object],
    user: str = "",
    role: str = "",
    *,
    timeout: float | None = 0.0,
    home: str | Path | None = None,
) -> int:
    """Work as a task until its queue is empty: call `main` for each object; returns their number.

    It ends if no object arrives for `timeout` seconds; with None it never does. If `main` returns without
    having asserted a terminal state, FORWARD is asserted. If it raises, EXCEPTION is asserted, or, if no edge
    leads there, the object goes back to the queue.
    """
    done = 0
    with init(name, user, role, home=home) as task:
        while (item := task.get_work_object(timeout)) is not None:
            try:
                main(item)
            except BaseException:
                _fail(task)
                raise
            if task.workobject is not None or task.get_current_state():  # its object may have been given away
                task.assert_("FORWARD")  # noqa: PT009 - it is the name of K49
            done += 1
    return done


def _fail(task: ProgramTask) -> None:
    try:
        if task.workobject is not None:
            task.assert_("EXCEPTION")  # noqa: PT009
    except (TaskRefusedError, DaemonGoneError):
        pass


# --- the current task -------------------------------------------------------------------------------------


def get_work_object(timeout: float | None = None) -> WorkObject | None:
    """The next object of the queue of the current task."""
    return current().get_work_object(timeout)


def current_object() -> WorkObject | None:
    """The object of the current task."""
    return current().current_object()


def assert_(state: str) -> str:
    """Move the current task to a state."""
    return current().assert_(state)  # noqa: PT009


def raise_event(event: str, name: str = "", *parameters: str, **more: Any) -> dict[str, Any]:
    """Raise an event from the current task."""
    return current().raise_event(event, name, *parameters, **more)


def wait_on_event(event: str, timeout: float = 0) -> dict[str, Any] | None:
    """Wait for an event for the current task."""
    return current().wait_on_event(event, timeout)


def wait_on_event_end(event: str, timeout: float = 0) -> dict[str, Any] | None:
    """Wait for the end of an event for the current task."""
    return current().wait_on_event_end(event, timeout)


def get_current_state() -> str:
    """The state of the current task."""
    return current().get_current_state()


def down() -> None:
    """End the current task."""
    current().down()


def exec(command: str | Sequence[str]) -> str:
    """Run a program and wait for its end (K56); returns its output. Raises CalledProcessError."""
    words = shlex.split(command) if isinstance(command, str) else list(command)
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


def launch(command: str | Sequence[str]) -> int:
    """Start a program without waiting for it; returns its process id."""
    words = shlex.split(command) if isinstance(command, str) else list(command)
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True).pid


def _ask(home: str | Path | None, agent: str, user: str, operation: str, **arguments: Any) -> Any:
    the_home = Home.find(home)
    socket = the_home.known_socket()
    named = agent or os.environ.get("NARVAL_AGENT", "")
    client = Client.reach(socket, acting_as=user, agent=named) if socket is not None else None
    if client is None:
        raise DaemonGoneError(f"no daemon serves {the_home.path}; start it with `narval run`")
    with client:
        return client.ask(operation, **arguments)


def _bytes(value: str | bytes | Element) -> bytes:
    if isinstance(value, Element):
        return value.xml
    return text_bytes(value) if isinstance(value, str) else value
