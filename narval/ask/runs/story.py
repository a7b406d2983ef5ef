"""The operations `story` and `replay`: what happened in a run, in sentences or as states.

A story is grouped by part in order of time. A replay has the run as it was after each entry of its journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import zip_longest
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from narval.agent.agent import AgentState
from narval.agent.history import replayed_entries, snapshot_before
from narval.agent.incidents import error_of
from narval.agent.replay import definition_of, state_of
from narval.agent.run import Run
from narval.ask.json_forms import moment
from narval.ask.lookup import find_run
from narval.ask.registry import Form, operation
from narval.ask.runs.calls_told import LONGEST, CallsTold, Said, Sentences, made_by, run_piece
from narval.ask.runs.drawing import LONGEST_LINE, arc_ids, graph_of
from narval.ask.runs.history import NEWEST, concealed, lines_of
from narval.ask.text import moment_there, person, shortened, text_of
from narval.core.engines.engine import HasTokens
from narval.core.engines.graph import GraphEdge, GraphNode, clipped
from narval.core.engines.story import ON_EVENTS, ON_QUIET_EVENTS, Fact, part_word_of, story_of
from narval.core.errors import RequestError, UnreadableError
from narval.core.source.secrets import without_secrets
from narval.daemon.daemon import Daemon
from narval.store.batch import JournalRow
from narval.system.long_work import TimeSlice

MOST = 1000
"""The most entries of the journal in one answer."""
SENTENCES = 100
"""The most sentences on one entry."""


@operation("read")
async def story(
    daemon: Daemon, run: int, after: int | None = None, before: int | None = None, limit: int = 100
) -> Form:
    """The story of a run in sentences, from the newest `limit` entries of its journal, the newest before line
    `before`, or the first after line `after`; at most 1,000 entries.

    `groups` are the parts in the order in which they were entered, each with its entries; a part that is
    entered again has another group. In an entry, `seq` is its first line and `said` the pieces of a sentence:
    texts, elements with their titles, runs, moments. `older` is the `before` for earlier entries, None if
    there are none; `last` is the `after` for later ones, and `more` says that there are some.
    """
    the_run = find_run(daemon, run)
    teller, groups = Teller(daemon.agent, the_run, SENTENCES), list[Form]()
    if limit < 1:
        raise RequestError(f"expected limit to be 1 or more, got {limit}")
    if after is not None and before is not None:
        raise RequestError("expected after or before, one of the two")
    most, time_slice, rows, last = min(limit, MOST), TimeSlice(), list[JournalRow](), after or 0
    store = daemon.agent.store
    entries = (
        store.journal(run, after, most=most + 1)
        if after is not None
        else store.journal(run, before=NEWEST if before is None else before, most=most + 1)
    )
    for row in entries:
        await time_slice.yield_if_due()
        rows.append(row)
    is_more = len(rows) > most
    rows = rows[:most] if after is not None else rows[:most][::-1]
    for row in rows:
        await time_slice.yield_if_due()
        event, *facts = concealed(the_run, lines_of(row))
        for sentence in teller.hear(row, event, facts):
            _add(groups, {"seq": row.seq, "at": event["at"], "said": sentence.said}, sentence)
        last = event["seq"] + len(facts)
    return {
        "run": run,
        "name": the_run.name,
        "groups": groups,
        "older": rows[0].seq if rows and after is None and is_more else None,
        "last": last,
        "more": is_more and after is not None,
    }


def _add(groups: list[Form], entry: Form, sentence: Sentence) -> None:
    """Add a sentence to the latest group of its part, or to a new one."""
    part = sentence.part
    latest = groups[-1:] if not part else (group for group in reversed(groups) if group["part"] == part)
    group = None if sentence.begins else next(iter(latest), None)
    if group is None or group["part"] != part:
        group = {"part": part, "word": sentence.word if part else "run", "entries": []}
        groups.append(group)
    group["entries"].append(entry)


class Sentence(NamedTuple):
    """A sentence on a part of a run, "" for the run itself; `begins` says that it enters the part."""

    said: Said
    part: str = ""
    word: str = ""
    begins: bool = False


class Teller:
    """The sentences on the entries of a run, one entry after another, at most `most` on each. In `pairs`, the
    end of a call completes the sentence on its beginning.
    """

    def __init__(self, agent: AgentState, run: Run, most: int, *, pairs: bool = True) -> None:
        self._agent, self._run, self._most = agent, run, most
        self._facts, self._word = story_of(run.engine), part_word_of(run.engine)
        self._sentences = Sentences(agent)
        self._calls = CallsTold(agent, run, self._sentences, pairs=pairs)
        self._tokens: dict[int, str] = {}
        self._now: tuple[Any, Any] | None = None

    def hear(self, row: JournalRow, event: Form, facts: list[Form]) -> list[Sentence]:
        """The sentences on one entry: its event, and what followed."""
        sentences = [*self._of_event(row, event, facts), *self._of_facts(row, facts)]
        if not sentences and event["what"] in ON_QUIET_EVENTS:
            sentences = list(self._in_words(ON_QUIET_EVENTS[event["what"]], event))
        if (more := len(sentences) - self._most) > 0:
            sentences[self._most :] = [Sentence([f"{more} more things happened at once."])]
        return sentences

    def _of_event(self, row: JournalRow, event: Form, facts: list[Form]) -> Iterator[Sentence]:
        what = event["what"]
        match what:
            case "Returned":
                if (said := self._calls.end(row, event, facts)) is not None:
                    yield self._of_call(event["call"], said)
                return
            case "Produced":
                call = self._calls.find(event["call"])
                name = call.name if call is not None else "A call"
                results = self._sentences.named(self._calls.given(facts))
                yield self._of_call(event["call"], [f"{name} gave ", *results, "."])
                return
            case "Started":
                yield Sentence(self._beginning(event))
            case "CallStarting":
                if (said := self._calls.starting(event["call"])) is not None:
                    yield self._of_call(event["call"], said)
            case "Signalled" if event.get("by") and not any(line.get("by") for line in facts):
                what = "SignalledBy"
            case "Migrated" if event.get("undoes"):
                what = "MigratedBack"
        if (fact := ON_EVENTS.get(what)) is not None:
            yield from self._in_words(fact, event)
        if made := made_by(facts):
            yield Sentence(["It made ", *self._sentences.named(made), "."])

    def _of_call(self, id: str, said: Said) -> Sentence:
        return Sentence(said, self._calls.part_of(id), self._word)

    def _beginning(self, event: Form) -> Said:
        caller, resume = event.get("caller"), event.get("resume")
        said: Said
        if resume:
            said = [f"It was begun again from {resume['part']} of ", run_piece(resume["of"])]
        elif caller:
            of = run_piece(caller["run"]) if caller.get("run") else f"agent {caller.get('agent')}"
            held = caller.get("held")
            does = f" asks before it calls {held['name']}" if held else " called it"
            said = [f"Step {caller['step']} of ", of, does]
        else:
            said = [f"{person(event)} started it" if event.get("by") else "It began"]
        if event.get("elements"):
            said += [", with ", *self._sentences.named(event["elements"])]
        if event.get("attempt"):
            said.append(f", after {event['attempt']} failures in a row")
        return [*said, "."]

    def _of_facts(self, row: JournalRow, facts: list[Form]) -> Iterator[Sentence]:
        watches = {line["watch"]: line for line in facts if line["what"] == "Watch"}
        for line in facts:
            if "token" in line and "node" in line:
                self._tokens[line["token"]] = line["node"]
            match line["what"]:
                case "Call":
                    part, said = self._calls.begin(row, line)
                    yield Sentence(said, part, self._word)
                case "Start":
                    at = [" at ", {"moment": moment(line["due"])}] if line.get("due") else []
                    yield Sentence([f"The next run of {line['name']} begins", *at, "."])
                case "Finish":
                    yield Sentence(self._finish(line))
                case what if (fact := self._facts.get(what)) is not None:
                    yield from self._in_words(fact, line, watches)

    def _in_words(self, fact: Fact, line: Form, watches: Mapping[str, Form] = {}) -> Iterator[Sentence]:
        said = self._sentences.in_words(fact.words, line, watches)
        for part, word in self._parts(fact, line) if said else ():
            yield Sentence(said, part, word, fact.begins)

    def _parts(self, fact: Fact, line: Form) -> Iterator[tuple[str, str]]:
        """The parts that a change concerns, each with its sort."""
        if not fact.part:
            yield "", ""
        elif fact.part in ("call", "wake"):
            yield self._calls.part_of(line[fact.part]), self._word
        elif fact.part == "token":
            yield self._node(line.get("token")), fact.word
        else:
            names = line.get(fact.part) or ""
            for name in [names] if isinstance(names, str) else names:
                yield name, fact.word or fact.part

    def _node(self, token: int | None) -> str:
        """The node of a token, from these entries or from the state of the run."""
        engine: object = self._run.engine
        if token is not None and token not in self._tokens and isinstance(engine, HasTokens):
            try:
                if self._now is None:  # an ended run's journal must be read for it
                    self._now = definition_of(self._agent, self._run), state_of(self._agent, self._run)
                view = engine.token_view(*self._now, token)
            except (RequestError, UnreadableError, KeyError):
                view = {}
            self._tokens[token] = str((view.get("node") or {}).get("id", ""))
        return self._tokens.get(token, "") if token is not None else ""

    def _finish(self, line: Form) -> Said:
        said: Said = [f"The run is {line['state']}"]
        error = error_of(self._agent, self._run) if line.get("error") else None
        if error is not None:
            why = shortened(f"{error.kind}: {without_secrets(error.message)}", LONGEST)
            said.append(f"{error.where}: {why}")
        elif line.get("eids"):
            said += [", and gave ", *self._sentences.named(line["eids"])]
        return [*said, "."]


def in_words(sentences: list[Sentence], when: Callable[[str], str]) -> str:
    """The sentences on an entry as one text, with the parts that they concern; `when` writes the moments."""
    parts = [""] + [sentence.part for sentence in sentences]
    texts = (
        text_of([f"{one.part}: "] * (one.part not in ("", before)) + one.said, when)
        for one, before in zip(sentences, parts, strict=False)
    )
    return " ".join(texts)


SAID = 5
"""The most sentences on one entry."""

Parts = tuple[GraphNode | GraphEdge, ...]


@operation("read")
async def replay(daemon: Daemon, run: int, after: int = 0, limit: int = MOST) -> Form:
    """The entries of a run's journal after line `after`, at most `limit` and 1,000. Each has its last line,
    its moment, what happened in the words of `story` with moments in the zone of the home, a mark for errors
    and signals, and the parts and arcs that changed, in their new state; if the run migrated, also its new
    `version`.

    `parts` and `arcs` have all of them before the first entry returned. The run can be shown from line
    `first` on, which is its beginning if it is `whole`; `more` says that entries follow, `fault` why no more
    can be read.
    """
    the_run = find_run(daemon, run)
    if limit < 1:
        raise RequestError(f"expected limit to be 1 or more, got {limit}")
    answer: Form = {"run": run, "first": None, "whole": True, "more": False, "fault": None}
    entries, time_slice = list[Form](), TimeSlice()
    base: Parts = ()
    zone = ZoneInfo(daemon.agents.own.agent.clockwork.zone)

    def when(moment: str) -> str:
        return moment_there(datetime.fromisoformat(moment).astimezone(zone).isoformat())

    try:
        begun = snapshot_before(daemon.agent, the_run, after)
        answer |= {"first": begun.first, "whole": begun.whole}
        state, definition, is_told = begun.state, begun.definition, False
        teller = Teller(daemon.agent, the_run, SAID, pairs=False)
        for entry in replayed_entries(daemon.agent, the_run, begun.reached, after):
            await time_slice.yield_if_due()
            if entry.row is not None and not is_told:
                base = then = graph_of(the_run.engine, definition, state).parts
                is_told = True
            if len(entries) == min(limit, MOST):
                answer["more"] = True
                break
            for change in entry.changes:
                change.apply(state)
            definition = entry.definition or definition
            if entry.row is None:
                continue
            before = then
            if entry.changes:
                await time_slice.yield_if_due()
                then = graph_of(the_run.engine, definition, state).parts
            event, *facts = concealed(the_run, lines_of(entry.row))
            what = in_words(teller.hear(entry.row, event, facts), when)
            row = _summary(event, facts, what) | _differences(before, then)
            version = {} if entry.definition is None else {"version": entry.definition.digest}
            entries.append(row | version)
        if not is_told:
            base = graph_of(the_run.engine, definition, state).parts
    except UnreadableError as error:
        answer["fault"] = str(error)
    return {**answer, **_differences((), base), "entries": entries}


def _differences(before: Parts, then: Parts) -> Form:
    """The parts and arcs that changed, each with its id and its state."""
    differences: Form = {"parts": [], "arcs": []}
    arcs = arc_ids([part for part in then if isinstance(part, GraphEdge)])
    for old, new in zip_longest(before, then):
        arc = next(arcs) if isinstance(new, GraphEdge) else ""
        if new == old:
            continue
        if isinstance(new, GraphEdge):
            differences["arcs"].append([arc, new.kind, new.badge])
        elif new is not None and (not isinstance(old, GraphNode) or _stands(old) != _stands(new)):
            differences["parts"].append(_stands(new))
    return differences


def _stands(node: GraphNode) -> list[str]:
    return [node.id, node.status, node.tone, clipped(node.badge, LONGEST_LINE)]


def _summary(event: Form, facts: list[Form], what: str) -> Form:
    """An entry in words, with its last line, its moment and its mark."""
    mark = "signal" if event["what"] in ("Signalled", "Cancelled") else ""
    if event.get("problem") or any(line["what"] == "Finish" and line["phase"] == "failed" for line in facts):
        mark = "error"
    what = what or "A call begins."  # only such an entry has no sentence
    return {"seq": event["seq"] + len(facts), "at": event["at"], "what": what, "mark": mark}
