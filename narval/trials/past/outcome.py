"""The outcome of a trial on the past: runs started and ended, and deeds that would have been done outside."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import msgspec

from narval.core.definitions.library import Library
from narval.core.engines.registry import runnable
from narval.core.kinds import ASKING
from narval.trials.past.past import Reach
from narval.trials.past.stores import LeftOut
from narval.trials.simulate.executor import RecordedCall
from narval.trials.simulate.trace import Line

NEWEST = 50
"""The most deeds that are kept, unless all are requested."""

INSIDE = ("ran", "source")
"""The ways to answer calls that have no effect outside."""


class Deed(NamedTuple):
    """Something that would have been done outside: sent, written, asked, called."""

    at: float
    verb: str
    name: str
    """The action, or the work that a person is asked to do."""
    text: str
    """The action's sentence for it, or the elements it was given."""
    how: str
    """The way the call got its answer."""
    run: int


class Change(NamedTuple):
    """A definition with more or fewer runs or calls with the trial than without it."""

    name: str
    what: str
    """The action, or "" for its runs."""
    without: int
    with_it: int


class Tally:
    """The deeds of runs, counted as they happen; `names` are the definitions on trial."""

    def __init__(
        self, names: Collection[str], library: Library, zone: str, most: int | None = NEWEST
    ) -> None:
        self._names, self._library, self._zone = names, library, zone
        self._tried: set[int] = set()
        self.counts: Counter[tuple[str, str]] = Counter()
        """The runs of each definition, under "", and its calls of each action."""
        self.ended: Counter[str] = Counter()
        """The ended runs of the definitions on trial, by phase."""
        self.begun = 0
        self.deeds: deque[Deed] = deque(maxlen=most)
        self.done = 0
        """The number of deeds."""
        self.errors: Counter[str] = Counter()
        """The errors with which their runs failed."""
        self.arrived = 0
        self._kinds: Counter[str] = Counter()

    def hear(self, lines: Sequence[Line], calls: Sequence[RecordedCall]) -> None:
        """Count the new lines and calls."""
        for line in lines:
            what = line["what"]
            if what == "arrived":
                self.arrived += 1
            elif what == "started":
                self._start(line)
            elif what == "sent" and line["run"] in self._tried:
                self._do(Deed(line["at"], "send", " and ".join(line["to"]), line["xml"], "", line["run"]))
        for call in calls:
            if call.attempt == 1:
                self._call(call)
        for line in lines:
            if line["what"] == "ended":
                self._end(line)

    def _start(self, line: Line) -> None:
        run, name, caller = line["run"], line["name"], line["caller"]
        is_called = caller is not None and caller["run"] in self._tried
        if name in self._names:
            self.begun += 1
        if name in self._names or is_called:
            self._tried.add(run)
        if not is_called:
            self.counts[name, ""] += 1
        definition = runnable(self._library, name)
        if run in self._tried and definition is not None and definition.kind == ASKING:
            self._do(Deed(line["at"], "ask", name, "", "", run))

    def _end(self, line: Line) -> None:
        if line["run"] in self._tried:
            self._tried.discard(line["run"])
            if line["name"] in self._names:
                self.ended[line["phase"]] += 1
                if line["error"]:
                    self.errors[line["error"]] += 1

    def _call(self, call: RecordedCall) -> None:
        is_tried = call.run in self._tried
        if not is_tried or call.recipe in self._names:
            self.counts[call.recipe, call.action] += 1
        if is_tried and call.how not in INSIDE:
            self._do(Deed(call.at, self._verb(call), call.action, self._text(call), call.how, call.run))

    def _do(self, deed: Deed) -> None:
        self.done += 1
        self._kinds[deed.verb] += 1
        self.deeds.append(deed)

    @property
    def verbs(self) -> Counter[str]:
        """The number of deeds of each verb."""
        return self._kinds

    def _verb(self, call: RecordedCall) -> str:
        action = self._library.get("action", call.action)
        return "write" if action is not None and not getattr(action, "outside", True) else "send"

    def _text(self, call: RecordedCall) -> str:
        action: Any = self._library.get("action", call.action)
        if action is not None and action.describe is not None:
            bindings = {id: list(elements_given) for id, elements_given in call.inputs}
            return str(action.describe.filled(bindings, self._zone))
        elements = (element for _, elements_given in call.inputs for element in elements_given)
        return ", ".join(element.xml.decode("utf-8") for element in elements)


class PastReport(msgspec.Struct, frozen=True):
    """The outcome of playing definitions on the past."""

    names: tuple[str, ...]
    """The definitions."""
    start: float
    """The first day."""
    until: float
    """The end of the period."""
    reached: float
    """The moment reached; `until` unless the trial was ended early."""
    reach: Reach
    """The known part of the past."""
    backups: tuple[str, ...]
    """The backups that were read."""
    left_out: tuple[LeftOut, ...]
    """The backups that could not be read."""
    tally: Tally
    """The deeds of their runs."""
    waiting: list[dict[str, Any]]
    """The reasons why some of their runs still wait, as in `narval why`, the newest first."""
    under_way: int
    """The number of these runs."""
    listening: int
    """The number of these runs that have taken nothing yet."""
    changes: list[Change]
    """The differences that the definitions would have made for others."""
    stopped: str = ""
    """The reason why it ended early."""


def changes_between(without: Tally, with_it: Tally, names: Collection[str]) -> list[Change]:
    """The differences between two plays, by definition, except those of `names`."""
    keys = sorted(without.counts.keys() | with_it.counts.keys())
    changes = (Change(*key, without.counts[key], with_it.counts[key]) for key in keys if key[0] not in names)
    return [change for change in changes if change.without != change.with_it]
