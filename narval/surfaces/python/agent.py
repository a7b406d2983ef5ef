"""narval in a program or a test: the same operations, without a daemon (surfaces, "Python")."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from lxml import etree

from narval.errors import RequestError
from narval.memory.elements.canonical import canonical, elements_of
from narval.memory.elements.element import Element
from narval.operations.operations import Operations
from narval.runtime.daemon.daemon import Daemon
from narval.runtime.home.home import Home
from narval.runtime.system.clock import Clock
from narval.surfaces.python.runner import Runner

Given = str | bytes | Element | etree._Element


def open(home: str | Path | None = None, *, clock: Clock | None = None) -> Agent:
    """Open a home, or with none make one in memory: nothing is kept on disk.

    Raises NoHomeError, HomeHeldError, SettingsError, StoreError.
    """
    return Agent(Home.find(home, {}) if home is not None else None, clock)


class Agent:
    """A home at work within this program: things go on while a method waits (`until_idle`, `wait`)."""

    def __init__(self, home: Home | None, clock: Clock | None) -> None:
        self._runner = Runner()
        try:
            self.daemon: Daemon = self._runner.run(Daemon.open(home, clock=clock))
        except BaseException:
            self._runner.close()
            raise
        self._operations = Operations(self.daemon)

    def __enter__(self) -> Agent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop what runs, and let the home go."""
        self._runner.run(self.daemon.close())
        self._runner.close()

    # --- definitions ----------------------------------------------------------------------------------

    def load(self, definition: str | Path) -> None:
        """Add the definitions of a file (a path), or of a text. Raises DefinitionError."""
        self._runner.run(self.daemon.files.load(definition))

    def stub(self, action: str, function: Callable[..., Any]) -> None:
        """Let a function take the place of an action: it is given the same parameters."""
        self.daemon.stub(action, function)

    # --- memory ---------------------------------------------------------------------------------------

    def add(self, element: Given) -> int:
        """Add one element; its eid. Raises ElementError, and RequestError for a `memory` of several."""
        found = elements_of(_bytes(element))
        if len(found) != 1:
            raise RequestError(f"expected one element, got {len(found)}; add_all takes several")
        return self.add_all(found)[0]

    def add_all(self, elements: Iterable[Given]) -> list[int]:
        """Add elements in one turn; their eids. Of a root `memory`, its children are added."""
        answer = self._runner.run(self._operations.add([_bytes(each) for each in elements]))
        return list(answer["eids"])

    def memory(
        self, xpath: str | None = None, *, context: int | None = None, current: bool = False
    ) -> list[Element]:
        """The elements that match a pattern (N9); `current` leaves out those that have been replaced."""
        return self._operations.elements(xpath, context, current)

    def element(self, eid: int) -> Element | None:
        """The element of that number."""
        return self.daemon.agent.memory.element(eid)

    # --- runs -----------------------------------------------------------------------------------------

    def start(self, name: str, *elements: Given, environment: dict[str, Any] | None = None) -> int:
        """Start a run of `group.name` with these elements as its first context; its eid.

        A process may be given attributes: its first `environment`.
        """
        given = [_bytes(each) for each in elements]
        return int(self._runner.run(self._operations.start(name, given, environment=environment))["eid"])

    def start_each(self, name: str, elements: Iterable[Given]) -> list[int]:
        """Start a run of `group.name` for each element, in one turn; their eids."""
        given = [_bytes(each) for each in elements]
        return list(self._runner.run(self._operations.start(name, given, each=True))["runs"])

    def until_idle(self) -> None:
        """Work until nothing can go on without something from outside."""
        self._runner.run(self.daemon.host.until_idle())

    def wait(self, run: int, timeout: float | None = None) -> dict[str, Any]:
        """Work until a run is over, or for so many seconds; the run."""
        return dict(self._runner.run(self._operations.wait(run, timeout)))

    def elapse(
        self, *, seconds: float = 0.0, minutes: float = 0.0, hours: float = 0.0, days: float = 0.0
    ) -> None:
        """Let simulated time pass; whatever is due on the way happens, in order."""
        self._runner.run(self.daemon.host.elapse(seconds + 60 * minutes + 3600 * hours + 86400 * days))

    def run(self, run: int, at: int | None = None) -> dict[str, Any]:
        """One run: its steps, transitions, context, error; as it was after line `at` of its history."""
        return dict(self._runner.run(self._operations.show(run, at)))

    def runs(self, **filters: str) -> list[dict[str, Any]]:
        """The runs there are, newest last; by `state`, `kind`, `name`."""
        return list(self._runner.run(self._operations.runs(**filters)))

    def history(self, run: int) -> list[dict[str, Any]]:
        """What happened in a run, in order."""
        return list(self._runner.run(self._operations.history(run)))

    def why(self, run: int, id: str | None = None) -> dict[str, Any]:
        """What a run waits for, or why a part of it did not go on."""
        return dict(self._runner.run(self._operations.why(run, id)))

    def simulate(
        self, what: str | Path, *, at: str | None = None, until: str | None = None, memory: str | None = None
    ) -> dict[str, Any]:
        """What would happen, as `narval simulate --json` says it; nothing does, and time goes on for nobody.

        `what` is the name of a definition, or a scenario: its file, or its text. The others take the place of
        what the scenario says. Raises DefinitionError, RequestError.
        """
        from narval.surfaces.python import simulate as embedding

        return embedding.simulate(self.daemon, self._runner, what, at=at, until=until, memory=memory)

    def cancel(self, run: int) -> dict[str, Any]:
        """End a run."""
        return dict(self._runner.run(self._operations.cancel(run)))

    def retry(self, run: int, step: str | None = None) -> int:
        """Begin a run again from a step, or from that which failed; the eid of the new run."""
        return int(self._runner.run(self._operations.retry(run, step))["eid"])

    def signal(self, run: int, name: str, *elements: Given, **arguments: str) -> dict[str, Any]:
        """Say something by name to a run, with elements and attributes; what it made of that."""
        given = [_bytes(each) for each in elements]
        return dict(self._runner.run(self._operations.signal(run, name, given, arguments)))

    # --- processes ------------------------------------------------------------------------------------

    def complete(
        self,
        run: int,
        *,
        node: str | None = None,
        token: int | None = None,
        arcs: Iterable[str] | None = None,
        asynchronous: bool = False,
        set: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Complete a token of a process: it leaves on the arcs of these names, or of none.

        With `set` (name, count, environment, members) it leaves as a new set of tokens. Asynchronously, what
        leaves waits for `execute_queued`. Raises TokenError.
        """
        names = list(arcs) if arcs is not None else None
        asked = self._operations.complete(run, node, token, names, asynchronous, set)
        return dict(self._runner.run(asked))

    def backtrack(self, run: int, *, node: str | None = None, token: int | None = None) -> dict[str, Any]:
        """Go back to where a token was active; the new token there. Raises TokenError."""
        return dict(self._runner.run(self._operations.backtrack(run, node, token)))

    def tokens(self, run: int, at: int | None = None) -> dict[str, Any]:
        """All tokens of a process, on nodes and on arcs, and its sets of tokens."""
        return dict(self._runner.run(self._operations.tokens(run, at)))

    def environment(
        self,
        run: int,
        token: int | None = None,
        values: dict[str, Any] | None = None,
        *,
        of_set: str | None = None,
        index: int | None = None,
    ) -> dict[str, str]:
        """The attributes of a process, or of a token over them; `values` are set first, None removes one."""
        asked = self._operations.environment(run, token, values, of_set, index)
        return dict(self._runner.run(asked)["environment"])

    def execute_queued(self, run: int) -> dict[str, Any]:
        """Go on with what asynchronous completions left waiting."""
        return dict(self._runner.run(self._operations.execute_queued(run)))

    def listen(self, run: int, listener: str, *events: str) -> dict[str, Any]:
        """From now on a listener hears of these events of a process, or of all."""
        return dict(self._runner.run(self._operations.listen(run, listener, list(events))))

    def unlisten(self, run: int, listener: str, *events: str) -> dict[str, Any]:
        """A listener hears of these events of a process no more, or of none."""
        return dict(self._runner.run(self._operations.unlisten(run, listener, list(events))))

    def ask(self, operation: str, **arguments: Any) -> Any:
        """Any operation by name, in the forms of the command line's `--json`."""
        return self._runner.run(self._operations.invoke(operation, arguments))


def _bytes(given: Given) -> bytes:
    if isinstance(given, Element):
        return given.xml
    if isinstance(given, etree._Element):
        return canonical(given)
    return given.encode("utf-8") if isinstance(given, str) else given
