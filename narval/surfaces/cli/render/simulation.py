"""The report of a simulation: for people a story under the dates of its days, for programs plain data.

Mails of a folder have a line each, with what came of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

from narval.ask.text import clean, counted, shortened
from narval.ask.text import zone as named_zone
from narval.core.definitions.reading.durations import duration
from narval.surfaces.cli.render import reasons
from narval.surfaces.cli.render.tables import SNIPPET
from narval.trials.simulate.report import Judged, SimulationReport, changes_of
from narval.trials.simulate.scenario import Expectation, Scenario
from narval.trials.simulate.trace import Line

MOST_LISTED = 20
"""The most runs listed that wait at the end, and that failed."""

_STAMP = re.compile(' xmlns:al="[^"]*"| al:(?:from|message)="[^"]*"')

BEGINNINGS = {"new": "a home on its first day", "now": "a copy of memory", "empty": "an empty memory"}


def local(at: float, zone: tzinfo | None) -> datetime:
    """A moment in the zone of the home; with None, in that of the machine."""
    return datetime.fromtimestamp(at, zone) if zone is not None else datetime.fromtimestamp(at).astimezone()


def shown(at: float, zone: tzinfo | None) -> str:
    """A moment for people, to the minute, or to the second if it has any."""
    return shown_there(local(at, zone))


def shown_there(when: datetime) -> str:
    """A moment for people in its own zone, to the minute, or to the second if it has any."""
    return f"{when:%Y-%m-%d %H:%M:%S}" if when.second else f"{when:%Y-%m-%d %H:%M}"


# --- for people ---------------------------------------------------------------------------------------------


StyledLine = tuple[str, str | None]
"""A line of a story, and its style: a colour, BOLD, or None."""

BOLD = "bold"


class StoryWriter:
    """Writes what happens in a simulation as a story, with a heading for each day."""

    def __init__(self, zone: tzinfo | None) -> None:
        self._zone = zone
        self._day = ""

    def write(self, lines: Iterable[Line]) -> Iterator[StyledLine]:
        """The lines of the story for what has happened since the last call."""
        for line in lines:
            when = local(line["at"], self._zone)
            day = f"{when:%A} {when:%Y-%m-%d}"
            if day != self._day:
                self._day = day
                yield "", None
                yield day, BOLD
            run = f"run {line['run']}" if line.get("run") else ""
            text, colour = SENTENCES[line["what"]](line)
            text = f"{line['who']}: {text}" if line.get("who") else text
            yield f"  {when:%H:%M:%S}  {run:<8}  {clean(text)}".rstrip(), colour


def _arrived(line: Line) -> StyledLine:
    of = f" from {line['from']}" if line.get("from") else ""
    return f"{line['element']} arrives{of}: {_snippet(line)}", "cyan"


def _snippet(line: Line) -> str:
    """The beginning of an element, without the stamp that another agent's element has."""
    return shortened(_STAMP.sub("", line["xml"]), SNIPPET)


def _started(line: Line) -> StyledLine:
    caller = line["caller"]
    by = f", called by step {caller['step']} of run {caller['run']}" if caller else ""
    by += f" of {caller['agent']}" if caller and caller.get("agent") else ""
    elements = f" with {_listed(line['elements'])}" if line["elements"] else ""
    return f"{line['name']} starts{elements}{by}", None


_CALLED: Mapping[str | None, StyledLine] = {
    None: ("{} could not be called", "red"),
    "ran": ("{}", None),
    "asked": ("asks for {}", None),
    "source": ("would watch, {}", None),
    "unanswered": ("would call {}, and nothing says what it gives", "red"),
}


def _called(line: Line) -> StyledLine:
    inputs = ", ".join(f"{id} {_listed(eids)}".strip() for id, eids in line["inputs"].items() if eids)
    what = f"{line['action']}({inputs})" + (f" of {line['agent']}" if line.get("agent") else "")
    step, how = line["step"], line.get("how")
    if how == "asks first":
        return f"{step}: asks {line['asks']} before it calls {what}", "magenta"
    if how in _CALLED:
        sentence, colour = _CALLED[how]
        return f"{step}: {sentence.format(what)}", colour
    after = f" after {duration(line['after'])}" if line["after"] else ""
    if line["after"] is None and not line["error"]:
        after = " never"
    error = f" by the error {line['error']}" if line["error"] else ""
    if how == "answered":
        return f"{step}: would call {what}, answered{error}{after}", "magenta"
    gave = ", ".join(line["gave"])
    return f"{step}: would call {what}" + (f", made up {gave}" if gave else ""), "magenta"


def _added(line: Line) -> StyledLine:
    step = f"{line['step']}: " if line["step"] else ""
    is_error = line["xml"].startswith("<error")
    return f"{step}adds {line['element']}: {_snippet(line)}", "red" if is_error else None


def _ended(line: Line) -> StyledLine:
    took = f" after {duration(line['took'])}" if line["took"] else ""
    why = f": {line['error']}" if line.get("error") else ""
    return f"{line['name']} is {line['state']}{took}{why}", "red" if line["phase"] == "failed" else "green"


def _forgot(line: Line) -> StyledLine:
    runs, elements = counted(line["runs"], "run"), counted(line["elements"], "element")
    forgotten = [text for text, number in ((runs, line["runs"]), (elements, line["elements"])) if number]
    return f"{' and '.join(forgotten)} forgotten", "bright_black"


def _acted(line: Line) -> StyledLine:
    outcome = f" {line['outcome']}" if line["outcome"] else ""
    if line["refused"]:
        return f"{line['by']} would {line['act']}{outcome}, refused: {line['refused']}", "red"
    return f"{line['by']} would {line['act']}{outcome}", "magenta"


def _woken(line: Line) -> StyledLine:
    part = f"{line['part']}: " if line["part"] else ""
    return "; ".join(line["did"]) or f"{part}its moment has come", None


SENTENCES: Mapping[str, Callable[[Line], StyledLine]] = {
    "arrived": _arrived,
    "started": _started,
    "called": _called,
    "added": _added,
    "ended": _ended,
    "acted": _acted,
    "forgot": _forgot,
    "sent": lambda line: (
        f"{line['step']}: sends {_listed(line['elements'])} to {' and '.join(line['to'])}: {_snippet(line)}",
        "cyan",
    ),
    "told": lambda line: (f"tells {line['hearer'] or line['name']} {line['signal']}", "cyan"),
    "replaced": lambda line: (f"{_listed(line['elements'])} replaced", "bright_black"),
    "fired": lambda line: (f"{line['transition']} takes {_listed(line['elements'])}", None),
    "woken": _woken,
}
"""The sentence on each kind of event, and its colour."""


def heading(scenario: Scenario, start: float, zone: tzinfo | None) -> str:
    """The heading of a story: scenario, memory, moment."""
    since = f"{shown(start, zone)} {named_zone()}"
    begun = f"{clean(scenario.name)} on {BEGINNINGS[scenario.memory]}, from {since}"
    return f"{begun}: {clean(scenario.description)}" if scenario.description else begun


def ending(report: SimulationReport) -> Iterator[StyledLine]:
    """The end of a story: runs, calls that would have been made, waits, expectations."""
    took = duration(report.end - report.start) if report.end > report.start else "no time at all"
    why = f": {report.stopped}" if report.stopped else ""
    yield "", None
    yield f"{shown(report.end, report.zone)}, after {took}{why}", BOLD
    yield from ((line, None) for line in (*_counts(report), *_waiting(report)))
    yield from ((line, "red") for line in (*_failed(report.failed), *_unanswered(report)))
    for judged in report.judged:
        yield _expected(report, judged), "green" if judged.met else "red"


def _counts(report: SimulationReport) -> Iterator[str]:
    phases = Counter(line["phase"] for line in report.lines if line["what"] == "ended")
    ended = ", ".join(f"{number:,} {phase}" for phase, number in sorted(phases.items()))
    if ended:
        yield f"  runs that ended: {ended}"
    calls = Counter((met.action, met.how) for met in report.calls if met.how not in ("ran", "source"))
    for (action, how), number in sorted(calls.items()):
        yield f"  would have called {clean(action)} {counted(number, 'time')} ({how})"


def _waiting(report: SimulationReport) -> Iterator[str]:
    """The runs under way at the end and their waits, in the words of `narval why`."""
    if report.waiting:
        yield f"  {counted(len(report.waiting), 'run')} still under way:"
    names = {(run.get("who"), run["eid"]): clean(run["name"]) for run in report.runs}
    for answer in report.waiting[:MOST_LISTED]:
        first, *rest = (line for line in reasons.why(answer) if line.strip())
        who = f"{answer['who']}: " if "who" in answer else ""
        name = names.get((answer.get("who"), answer["run"]), "")
        yield f"    {who}{first}" if not rest else f"    {who}run {answer['run']} of {name}"
        yield from (f"      {line}" for line in rest)
    if len(report.waiting) > MOST_LISTED:
        yield f"    and {len(report.waiting) - MOST_LISTED} more"


def _failed(lines: Sequence[Line]) -> Iterator[str]:
    for line in lines[:MOST_LISTED]:
        why = shortened(line["error"] or "", 200)
        who = f"{line['who']}: " if "who" in line else ""
        at = f" ({clean(line['place'])})" if line.get("place") else ""
        yield f"  failed: {who}run {line['run']} of {clean(line['name'])}: {why}{at}"
    if len(lines) > MOST_LISTED:
        yield f"  and {counted(len(lines) - MOST_LISTED, 'more failed run')}"


def _unanswered(report: SimulationReport) -> Iterator[str]:
    for action, number in sorted(Counter(met.action for met in report.unanswered).items()):
        text = f'say what {action} gives in a scenario: <answer action="{action}">…</answer>'
        yield f"  {counted(number, 'call')} without an answer: {clean(text)}"


def _expected(report: SimulationReport, judged: Judged) -> str:
    expectation = judged.expectation
    at = f" at {shown(judged.at, report.zone)}" if expectation.at is not None else ""
    if judged.met:
        return f"  as expected{at}: {clean(expectation.text)}, {judged.count}"
    place = f"{report.scenario.path}:{expectation.line}:{expectation.column}"
    return f"  NOT AS EXPECTED{at}: {place}: {difference(judged)}"


def difference(judged: Judged) -> str:
    """The expectation, and the number found instead."""
    expectation = judged.expectation
    return f"expected {clean(expectation.text)} {_number(expectation)}, found {judged.count}"


def _number(expectation: Expectation) -> str:
    if expectation.most is None:
        return f"{counted(expectation.least, 'time')} or more"
    if expectation.least == expectation.most:
        return counted(expectation.most, "time")
    most = f"at most {counted(expectation.most, 'time')}"
    return f"{expectation.least} to {expectation.most} times" if expectation.least else most


def _listed(eids: Iterable[int]) -> str:
    return ", ".join(map(str, eids))


# --- for programs -------------------------------------------------------------------------------------------


def json_form(report: SimulationReport) -> dict[str, Any]:
    """A report in the form of the command line's `--json`."""
    zone, calls = report.zone, Counter((met.action, met.how) for met in report.calls)
    return {
        "scenario": report.scenario.name,
        "path": report.scenario.path or None,
        "memory": report.scenario.memory,
        "from": moment_form(report.start, zone),
        "until": moment_form(report.end, zone),
        "stopped": report.stopped or None,
        "happened": [
            {**line, "at": moment_form(line["at"], zone), "text": SENTENCES[line["what"]](line)[0]}
            for line in report.lines
        ],
        "calls": [
            {"action": action, "how": how, "count": number} for (action, how), number in sorted(calls.items())
        ],
        "runs": report.runs,
        "waiting": report.waiting,
        "expected": [
            {
                "path": report.scenario.path,
                "line": judged.expectation.line,
                "column": judged.expectation.column,
                "what": judged.expectation.text,
                "at": moment_form(judged.at, zone),
                "least": judged.expectation.least,
                "most": judged.expectation.most,
                "found": judged.count,
                "met": judged.met,
            }
            for judged in report.judged
        ],
        "changes": changes_of(report),
        "well": report.well,
    }


def moment_form(at: float, zone: tzinfo | None) -> str:
    """A moment (seconds since 1970) in the form of the command line's `--json`."""
    return local(at, zone).isoformat(timespec="milliseconds")


MOST_SHOWN = 10
"""The most letters, and unreadable mails, that are listed; `--json` has all."""


def mails_told(outcome: dict[str, Any]) -> Iterator[StyledLine]:
    """The mails by verdict and rule, the letters that would go out, and the unreadable mails."""
    verdicts = outcome["verdicts"]
    yield "", None
    yield f"{counted(outcome['mails'], 'mail')} of {clean(outcome['folder'])}", BOLD
    rows = [(clean(row["verdict"]), clean(row["rule"]), row) for row in verdicts]
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    for verdict, rule, row in rows:
        words = (
            f"{verdict:<{widths[0]}}",
            *([f"{rule:<{widths[1]}}"] if widths[1] else []),
            clean(row["why"]),
        )
        yield f"{row['count']:>7,}  {'  '.join(words)}", None
    yield from _first_of("letter", outcome["letters"], "would go out", _mail_line)
    below = f"{outcome['folder']}/"
    yield from _first_of(
        "mail", outcome["unread"], "could not be read", lambda path: clean(path.removeprefix(below))
    )


def _mail_line(letter: dict[str, Any]) -> str:
    return f"{clean(letter['to'])}: {clean(letter['subject'])}"


def _first_of(what: str, things: list[Any], happened: str, text_of: Any) -> Iterator[StyledLine]:
    """A number of things, and the first of them."""
    if things:
        yield f"  {counted(len(things), what)} {happened}:", None
        yield from ((f"    {shortened(text_of(thing), 100)}", None) for thing in things[:MOST_SHOWN])
    if len(things) > MOST_SHOWN:
        yield f"    and {len(things) - MOST_SHOWN:,} more; --json has them all", None
