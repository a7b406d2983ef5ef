"""narval in a program or a test: the same operations, without a daemon (surfaces, "Python")."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lxml import etree
from msgspec.structs import replace

from narval.ask.asker import PROGRAM, PYTHON, Asker, person_name
from narval.ask.daemon import letters
from narval.ask.memory import changing, listing
from narval.ask.operations import invoke
from narval.ask.runs import acts, retrying
from narval.ask.runs.history import history
from narval.ask.runs.listing import runs as list_runs
from narval.ask.runs.listing import show as show_run
from narval.ask.why import why
from narval.core.elements.canonical import canonical, elements_of, text_bytes
from narval.core.elements.element import Element
from narval.core.errors import FaultWarning, RequestError
from narval.core.kinds import KINDS
from narval.daemon.daemon import Daemon
from narval.files.found_files import ModuleText
from narval.files.home import Home
from narval.surfaces.python.runner import Runner, ask, at_once, forward
from narval.system.clock import Clock
from narval.system.startup_gc import FirstTime

if TYPE_CHECKING:
    from narval.kinds.process.python import OfProcesses
    from narval.kinds.task.python import OfTasks
    from narval.kinds.work.python import OfWork

    class OfKinds(OfProcesses, OfWork, OfTasks):
        """The methods that kinds add."""
else:

    class OfKinds:
        """The methods that kinds add; a kind is imported on the first use of one."""

        def __getattr__(self, name):
            for methods in () if name.startswith("_") else methods_of_kinds():
                if name in vars(methods):
                    return vars(methods)[name].__get__(self)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def __dir__(self):
            return sorted({*super().__dir__(), *(name for each in methods_of_kinds() for name in vars(each))})


def methods_of_kinds() -> Iterator[type]:
    """The class of each kind that adds methods."""
    for kind in KINDS.values():
        if kind.methods:
            module, _, name = kind.methods.partition(":")
            yield getattr(import_module(f"{kind.folder}.{module}"), name)


Given = str | bytes | Element | etree._Element

_FIRST_OPENING = FirstTime()


def open(
    home: str | Path | None = None,
    *,
    clock: Clock | None = None,
    by: str | None = None,
    agent: str | None = None,
) -> Agent:
    """Open a home, or without one make a home in memory: nothing is kept on disk.

    `agent` names the agent that is asked, by default the home's own.

    `by` names the person for whom the program works: what it adds, starts and signals is recorded as theirs.
    Faults in its files are reported by one FaultWarning; valid definitions are loaded.
    Raises NoHomeError, HomeHeldError, SettingsError, StoreError, and RequestError for an invalid name.
    """
    asker = Asker("" if by is None else person_name(by), os.geteuid(), PYTHON)
    with _FIRST_OPENING.suspended():
        own = Agent(Home.find(home, {}) if home is not None else None, clock, asker)
    try:
        if faults := [fault for fault in own.daemon.files.faults if not fault.warning]:
            warnings.warn(FaultWarning(faults), stacklevel=2)
        return own if agent is None else own.other(agent, alone=True)
    except BaseException:
        own.close()
        raise


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=2)


def _nothing() -> None:
    """Do nothing."""


class OfMessages:
    """Messages to other agents of the home."""

    daemon: Daemon
    runner: Runner
    asker: Asker

    def send(self, to: str, *elements: Given, keep: float | None = None) -> list[str]:
        """Send elements to another agent of the home, in one turn; the ids of the messages.

        A message that is not taken within `keep` seconds becomes a dead letter. Raises RequestError.
        """
        xml = [_bytes(element) for element in elements]
        return list(ask(self, letters.send, to, xml, keep)["messages"])


class Agent(OfMessages, OfKinds):
    """A home that runs within this program: its runs proceed while a method waits (`until_idle`, `wait`).

    Use it in one thread at a time, and not where an event loop is running: there, in a notebook or a web
    server, call it by `asyncio.to_thread`. After `os.fork` only the parent uses it.
    """

    def __init__(self, home: Home | None, clock: Clock | None, asker: Asker = PROGRAM) -> None:
        self.runner, self.asker = Runner(), asker
        self._end: Callable[[], None] = self._close_home
        try:
            self.daemon: Daemon = self.runner.run(Daemon.open(home, clock=clock))
        except BaseException:
            self.runner.close()
            raise
        self.daemon.main_loop.tell_long_waits(_warn)

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop all runs, and release the home; an `other` agent only becomes passive. A second call, or one
        in a forked child, does nothing.
        """
        if self.runner.is_over:
            return
        end, self._end = self._end, _nothing
        try:
            end()
        except RequestError:  # it cannot be closed from here now
            self._end = end
            raise

    def other(self, name: str, *, alone: bool = False) -> Agent:
        """Another agent of the home, asked in the same way; it stays active until it is closed.

        With `alone`, closing it releases the home as well. Raises RequestError if there is no such agent.
        """
        seen = self.daemon.of(name)
        made = copy(self)
        made.daemon = self.runner.run(seen.__aenter__())
        made.asker = self.asker.asking(name)

        def end() -> None:
            self.runner.run(seen.__aexit__(None, None, None))
            if alone:
                self.close()

        made._end = end
        return made

    def by(self, person: str) -> Agent:
        """The same agent, asked by a person: what is added, started and answered is recorded as theirs.

        Closing it does nothing. Raises RequestError for an invalid name.
        """
        made = copy(self)
        made.asker = replace(self.asker, person=person_name(person))
        made._end = _nothing
        return made

    def _close_home(self) -> None:
        self.runner.run(self.daemon.close())
        self.runner.close()

    # --- definitions ----------------------------------------------------------------------------------

    def load(self, definition: str | Path, *, name: str | None = None) -> None:
        """Add the definitions of a file (a path), or of a text of XML; with `name`, those of a text of
        Python, as the module of that name. Raises DefinitionError, and RequestError for an invalid name.
        """
        if name is not None and not name.isidentifier():
            raise RequestError(f"expected the name of a module, such as shop, got {name!r}")
        if name is not None and isinstance(definition, Path):
            raise RequestError(f"expected the text of the module {name}, got a path: {definition}")
        text = ModuleText.of(f"{name}.py", str(definition).encode()) if name is not None else definition
        self.runner.run(self.daemon.reloader.load(text))

    def stub(self, action: str, function: Callable[..., Any]) -> None:
        """Call a function instead of an action, with the same parameters, or instead of the code that
        executes or undoes a type of nodes, with the token. Raises RequestError.
        """
        self.daemon.stub(action, function)

    # --- memory ---------------------------------------------------------------------------------------

    def add(self, element: Given, *, replace: int | None = None) -> int:
        """Add one element, replacing another if `replace` is its eid; returns the new eid.

        Raises ElementError, and RequestError for a `memory` of several.
        """
        elements = elements_of(_bytes(element))
        if len(elements) != 1:
            raise RequestError(f"expected one element, got {len(elements)}; add_all takes several")
        return int(ask(self, changing.add, elements, replace)["eids"][0])

    def add_all(self, elements: Iterable[Given]) -> list[int]:
        """Add elements in one turn, for a root `memory` its children; returns their eids."""
        return list(ask(self, changing.add, [_bytes(element) for element in elements])["eids"])

    memory = at_once(listing.matching)
    outdate = forward(changing.outdate)

    def element(self, eid: int) -> Element | None:
        """The element with that number, or None."""
        return self.daemon.agent.memory.element(eid)

    # --- runs -----------------------------------------------------------------------------------------

    run = forward(show_run)
    runs = forward(list_runs)
    wait = forward(acts.wait)
    cancel = forward(acts.cancel)
    cancel_all = forward(acts.cancel_all)
    renew = forward(retrying.renew)
    history = forward(history)
    why = forward(why)

    def start(self, name: str, *elements: Given, environment: dict[str, Any] | None = None) -> int:
        """Start a run of `group.name` with these elements as its first context; returns its eid.

        A process also accepts attributes, its first `environment`.
        """
        xml = [_bytes(element) for element in elements]
        return int(ask(self, acts.start, name, xml, environment=environment)["eid"])

    def start_each(self, name: str, elements: Iterable[Given]) -> list[int]:
        """Start a run of `group.name` for each element, in one turn; returns their eids."""
        xml = [_bytes(element) for element in elements]
        return list(ask(self, acts.start, name, xml, each=True)["runs"])

    def until_idle(self) -> None:
        """Work until nothing can continue without input from outside."""
        self.runner.run(self.daemon.main_loop.until_idle())

    def elapse(
        self, *, seconds: float = 0.0, minutes: float = 0.0, hours: float = 0.0, days: float = 0.0
    ) -> None:
        """Let simulated time pass; everything due meanwhile happens, in order."""
        self.runner.run(self.daemon.main_loop.elapse(seconds + 60 * minutes + 3600 * hours + 86400 * days))

    def simulate(
        self, what: str | Path, *, at: str | None = None, until: str | None = None, memory: str | None = None
    ) -> dict[str, Any]:
        """Simulate; returns the form of `narval simulate --json`. Nothing else happens, and the clock does
        not advance.

        `what` is the name of a definition, or a scenario: its file, or its text. Other arguments override
        the scenario. Raises DefinitionError, RequestError.
        """
        from narval.surfaces.python import simulate as embedding

        return embedding.simulate(self.daemon, self.runner, what, at=at, until=until, memory=memory)

    def retry(
        self, run: int, step: str | None = None, *, done: bool = False, gave: Iterable[int] = ()
    ) -> int:
        """Begin a run again from a step, by default the failed one; returns the eid of the new run.

        With `done`, that step counts as done, with the elements of the eids in `gave` as its results: the run
        continues after it.
        """
        return int(ask(self, acts.retry, run, step, done, list(gave))["eid"])

    def signal(self, run: int, name: str, *elements: Given, **arguments: str) -> dict[str, Any]:
        """Send a signal to a run under a name, with elements and attributes; returns its answer."""
        xml = [_bytes(element) for element in elements]
        return ask(self, acts.signal, run, name, xml, arguments)

    def ask(self, operation: str, **arguments: Any) -> Any:
        """Ask any operation by name; returns the form of the command line's `--json`."""
        return self.runner.run(invoke(self.daemon, self.asker, operation, arguments))


def _bytes(value: Given) -> bytes:
    if isinstance(value, Element):
        return value.xml
    if isinstance(value, etree._Element):
        return canonical(value)
    if isinstance(value, str):
        return text_bytes(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    what = "expected an Element, XML text or bytes, or an lxml element"
    raise RequestError(f"{what}, got {value!r:.80} ({type(value).__name__})")
