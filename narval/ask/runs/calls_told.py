"""The calls of a run in sentences: how each began and ended, in one sentence if both are known.

Pieces of sentences come first: texts, elements by their titles, runs and moments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.ask.json_forms import moment
from narval.ask.registry import Form
from narval.ask.runs.history import lines_of
from narval.ask.text import person, shortened
from narval.ask.titles import title
from narval.core.definitions.reading.durations import duration
from narval.core.engines import commands
from narval.core.engines.story import filled
from narval.core.kinds import ASKS
from narval.core.source.secrets import without_secrets
from narval.store.batch import JournalRow

Said = list[Any]
"""A sentence: texts, and between them `{"element"}`, `{"run"}` or `{"moment"}`, each with its title."""

NAMED = 12
"""The most elements that one sentence names."""
LONGEST = 200
"""The most characters of a text in a sentence."""


class Sentences:
    """The sentences about the runs of an agent."""

    def __init__(self, agent: AgentState) -> None:
        self._agent = agent

    def in_words(self, words: str, line: Form, watches: Mapping[str, Form]) -> Said:
        """The words of a fact, filled from its line, without optional words whose fields it lacks."""
        return filled(words, partial(self._valued, line, watches))

    def _valued(self, line: Form, watches: Mapping[str, Form], field: str, form: str) -> Said:
        value = line.get(field)
        if value is None or value == "" or (form and not value):
            return []
        match form:
            case "element":
                return self.named(value if isinstance(value, list | tuple) else [value])
            case "run":
                return [run_piece(value)]
            case "moment":
                return [{"moment": moment(value)}]
            case "person":
                return [person(line)]
            case "brief":
                return [str(value)[:12]]
            case "watch":
                return [_conditions(watches.get(value))]
        if isinstance(value, dict):
            return [problem_text(value) if "message" in value else ", ".join(map(str, value))]
        if isinstance(value, list | tuple):
            texts = [str(one) for one in value if one != ""]
            return [shortened(", ".join(texts), LONGEST)] if texts else []
        return [shortened(value, LONGEST)]

    def named(self, eids: Iterable[int]) -> Said:
        """Elements by their titles, the first `NAMED`."""
        listed = list(dict.fromkeys(eids))
        said: Said = []
        for eid in listed[:NAMED]:
            said += [", ", {"element": eid, "title": title(self._agent, eid)}]
        more = len(listed) - NAMED
        return said[1:] + ([f" and {more} more"] if more > 0 else [])


def run_piece(eid: int) -> Form:
    """A run in a sentence."""
    return {"run": eid, "title": f"run {eid}"}


def problem_text(problem: Form) -> str:
    """A problem in a sentence, without secrets."""
    return shortened(f"{problem['kind']}: {without_secrets(problem['message'])}", LONGEST)


def length_of(seconds: float) -> str:
    """A duration in a sentence."""
    return duration(seconds) if seconds >= 0.001 else "less than 1 ms"


def _conditions(watch: Form | None) -> str:
    """The patterns that a watch is for."""
    texts = [text for bound in (watch or {}).get("conditions", ()) for text in bound["texts"]]
    return shortened(" and ".join(texts) or "its conditions", LONGEST)


class CallTold:
    """A call whose beginning has a sentence: `said` is that sentence, which its end completes."""

    def __init__(self, line: Form, at: float, said: Said) -> None:
        self.part, self.name, self.event_at = _part(line), line["name"], line["at"]
        self.at, self.said = at, said
        is_first_told = line["kind"] == commands.SEND or line.get("on_restart") == "error"
        self.may_have_begun = not (is_first_told or line.get("undoable"))
        """True if the next recorded start is not the first."""


class CallsTold:
    """The calls of a run, by their ids, as its entries record them. In `pairs`, the end of a call completes
    the sentence on its beginning; otherwise each has its own sentence.
    """

    def __init__(self, agent: AgentState, run: Run, sentences: Sentences, *, pairs: bool) -> None:
        self._agent, self._run, self._sentences, self._pairs = agent, run, sentences, pairs
        self._open: dict[str, CallTold] = {}
        self._known: dict[str, CallTold | None] = {}

    def begin(self, row: JournalRow, line: Form) -> tuple[str, Said]:
        """The part that makes a call, and the sentence on it, which its end completes."""
        said, child = self._asked(line), self._agent.runs.by_call.get(line["call"])
        is_open = self._pairs and self._run.active and line["call"] in self._run.calls
        is_held = is_open and bool(line.get("approve")) and not line.get("approved")
        if child is not None:
            said += ["; ", run_piece(child), " asks if it may"] if is_held else [", by ", run_piece(child)]
        elif is_held:
            said.append("; it waits for an agreement")
        said.append("; it is under way." if is_open and not is_held else ".")
        call = CallTold(line, row.at, said)
        self._known[line["call"]] = call
        if self._pairs:
            self._open[line["call"]] = call
        return call.part, said

    def _asked(self, line: Form) -> Said:
        """The beginning of a sentence on a call, without its end."""
        kind = line["kind"]
        name = f"{line['name']} at agent {line['of']}" if line.get("of") else line["name"]
        eids = _given_to(line)
        elements = [" with ", *self._sentences.named(eids)] if eids else []
        payload = line.get("payload") or {}
        said: Said
        match kind:
            case commands.SEND:
                said = ["It sent ", *self._sentences.named(eids), f" to {name}"]
            case commands.SIGNAL:
                to = [run_piece(payload["run"])] if payload.get("run") else [name]
                said = [f"It signalled {payload.get('signal', '')} to ", *to, *elements]
            case commands.PROGRAM:
                words = (line.get("program") or {}).get("words") or [name]
                said = [f"It ran {shortened(' '.join(words), LONGEST)}", *elements]
            case commands.FLOW:
                said = ["It began", *elements]
            case commands.NOTICE:
                said = [f"{line['step']} is written to, by {name}"]
            case _:
                said = [f"It {'asked people:' if kind in ASKS else 'called'} {name}", *elements]
        if line.get("attempt", 1) > 1:
            said.append(f", attempt {line['attempt']}")
        return said

    def starting(self, id: str) -> Said | None:
        """The sentence on a repeated start of a call; None for a first start."""
        call = self.find(id)
        if call is None:
            return None
        is_again, call.may_have_begun = call.may_have_begun, True
        before = "the daemon had stopped before it came back, and perhaps before it began"
        return [f"{call.name} was called again: {before}."] if is_again else None

    def end(self, row: JournalRow, event: Form, facts: list[Form]) -> Said | None:
        """The sentence on the end of a call; None if it completes the sentence on its beginning."""
        made, problem = self.given(facts), event.get("problem")
        if not made and problem is None:
            made = event.get("eids") or []
        outdated = [eid for line in facts if line["what"] == "Outdate" for eid in line["eids"]]
        begun, call = self._open.pop(event["call"], None), self.find(event["call"])
        took = length_of(row.at - call.at) if call is not None and (begun or not self._pairs) else ""
        said: Said
        if event.get("late"):
            of = f"failed: {problem_text(problem)}" if problem is not None else "what it has done stays done"
            said = [f"came back after it was given up: {of}"]
        elif event.get("abandoned"):
            said = [f"was given up{f' after {took}' if took else ''}"]
        elif problem is not None:
            said = [f"failed{f' after {took}' if took else ''}: {problem_text(problem)}"]
        else:
            said = [f"took {took}"] if took else ["came back"]
            if made:
                said += [" and gave ", *self._sentences.named(made)]
            if outdated and made:
                said += [" in place of ", *self._sentences.named(outdated)]
        if begun is not None:
            begun.said[-1:] = ["; it ", *said, "."]
            return None
        if call is None:
            return ["A call ", *said, "."]
        # a late result may answer any earlier try; the moment is that of the last try
        is_told = self._pairs and not event.get("late")
        asked = [", which was asked at ", {"moment": call.event_at}, ","] if is_told else []
        return [call.name, *asked, " ", *said, "."]

    def given(self, facts: list[Form]) -> list[int]:
        """The results of a call among the elements of an entry, without arguments of the next call."""
        calls = [line for line in facts if line["what"] == "Call"]
        arguments = {eid for line in calls for eid in _given_to(line) if self._is_argument(eid, line["step"])}
        return [eid for eid in made_by(facts) if eid not in arguments]

    def _is_argument(self, eid: int, step: str) -> bool:
        """True if a step made an element as an argument of its call, so no call gave it."""
        element = self._agent.memory.element(eid)
        origin = element.origin if element is not None else None
        return origin is None or (origin.step == step and not origin.call)

    def find(self, id: str) -> CallTold | None:
        """A requested call; None if the journal no longer has it."""
        if id not in self._known:
            self._known[id] = self._asked_before(id)
        return self._known[id]

    def _asked_before(self, id: str) -> CallTold | None:
        """A call from an earlier entry: its id begins with the number of that entry."""
        number = id.partition(".")[0]
        if not number.isdecimal():
            return None
        for row in self._agent.store.journal(self._run.eid, int(number) - 1, most=1):
            for line in lines_of(row):
                if line["what"] == "Call" and line["call"] == id:
                    return CallTold(line, row.at, [])
        return None

    def part_of(self, id: str) -> str:
        """The part that has made a call; "" if it is not known."""
        call = self.find(id)
        return call.part if call is not None else ""


def _part(line: Form) -> str:
    """The part that makes a call; "" for a notice, whose step is the person it is sent to."""
    return "" if line["kind"] == commands.NOTICE else str(line["step"])


def _given_to(line: Form) -> list[int]:
    """The elements that a call is given."""
    return [eid for _, eids in line.get("inputs", ()) for eid in eids] or list(line.get("elements", ()))


def made_by(facts: list[Form]) -> list[int]:
    """The elements that an entry added, except the error that says why its run failed."""
    errors = {line.get("error") for line in facts if line["what"] == "Finish"}
    errors |= {eid for line in facts for eid in line.get("errors", ())}
    return [line["element"] for line in facts if line["what"] == "Add" and line["element"] not in errors]
