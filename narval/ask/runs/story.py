"""The operation `story`: what happened in a run, in sentences, grouped by part in order of time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from narval.agent.agent import AgentState
from narval.agent.replay import definition_of, state_of
from narval.agent.run import Run
from narval.agent.run_error import error_of
from narval.ask.json_forms import moment
from narval.ask.lookup import find_run
from narval.ask.registry import operation
from narval.ask.runs.calls_told import CallsTold, made_by
from narval.ask.runs.history import NEWEST, concealed, lines_of
from narval.ask.runs.sentences import LONGEST, Row, Said, Sentences, run_piece
from narval.ask.text import person, shortened
from narval.core.engines.engine import HasTokens
from narval.core.engines.story import Fact, part_word_of, story_of
from narval.core.errors import RequestError, UnreadableError
from narval.core.source.secrets import without_secrets
from narval.daemon.daemon import Daemon
from narval.store.batch import JournalRow
from narval.system.time_slice import TimeSlice

MOST = 1000
"""The most entries of the journal in one answer."""
SENTENCES = 100
"""The most sentences on one entry."""


@operation("read")
async def story(
    daemon: Daemon, run: int, after: int | None = None, before: int | None = None, limit: int = 100
) -> Row:
    """The story of a run in sentences, from the newest `limit` entries of its journal, the newest before line
    `before`, or the first after line `after`; at most 1,000 entries.

    `groups` are the parts in the order in which they were entered, each with its entries; a part that is
    entered again has another group. In an entry, `seq` is its first line and `said` the pieces of a sentence:
    texts, elements with their titles, runs, moments. `older` is the `before` for earlier entries, None if
    there are none; `last` is the `after` for later ones, and `more` says that there are some.
    """
    teller = _Teller(daemon.agent, find_run(daemon, run))
    if limit < 1:
        raise RequestError(f"expected limit to be 1 or more, got {limit}")
    if after is not None and before is not None:
        raise RequestError("expected after or before, one of the two")
    most, time_slice, rows = min(limit, MOST), TimeSlice(), list[JournalRow]()
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
        teller.hear(row)
    return {
        "run": run,
        "name": teller.name,
        "groups": teller.groups,
        "older": rows[0].seq if rows and after is None and is_more else None,
        "last": teller.last if rows else after or 0,
        "more": is_more and after is not None,
    }


class _Sentence(NamedTuple):
    """A sentence on a part of a run, "" for the run itself; `begins` says that it enters the part."""

    said: Said
    part: str = ""
    word: str = ""
    begins: bool = False


class _Teller:
    """The groups built from the entries of a run, one entry after another."""

    def __init__(self, agent: AgentState, run: Run) -> None:
        self._agent, self._run = agent, run
        self._facts, self._word = story_of(run.engine), part_word_of(run.engine)
        self._sentences = Sentences(agent)
        self._calls = CallsTold(agent, run, self._sentences)
        self._tokens: dict[int, str] = {}
        self._now: tuple[Any, Any] | None = None
        self._latest: dict[str, Row] = {}
        self.name = run.name
        self.groups: list[Row] = []
        self.last = 0

    def hear(self, row: JournalRow) -> None:
        """Take one entry: its event, and what followed."""
        event, *facts = concealed(self._run, lines_of(row))
        self.last = event["seq"] + len(facts)
        sentences = [*self._of_event(row, event, facts), *self._of_facts(row, facts)]
        if not sentences and event["what"] != "Returned":
            sentences = list(self._of_quiet(event))
        for sentence in sentences[:SENTENCES]:
            self._add(row.seq, event["at"], sentence)
        if len(sentences) > SENTENCES:
            more = f"{len(sentences) - SENTENCES} more things happened at once."
            self._add(row.seq, event["at"], _Sentence([more]))

    def _add(self, seq: int, at: str, sentence: _Sentence) -> None:
        part = sentence.part
        group = self._latest.get(part)
        is_last = bool(self.groups) and group is self.groups[-1]
        if group is None or sentence.begins or (not part and not is_last):
            group = {"part": part, "word": sentence.word if part else "run", "entries": []}
            self._latest[part] = group
            self.groups.append(group)
        group["entries"].append({"seq": seq, "at": at, "said": sentence.said})

    def _of_event(self, row: JournalRow, event: Row, facts: list[Row]) -> Iterator[_Sentence]:
        match event["what"]:
            case "Returned":
                if (said := self._calls.end(row, event, facts)) is not None:
                    yield self._of_call(event["call"], said)
                return
            case "Produced":
                call = self._calls.find(event["call"])
                name = call.name if call is not None else "A call"
                given = self._sentences.named(self._calls.given(facts))
                yield self._of_call(event["call"], [f"{name} gave ", *given, "."])
                return
            case "Started":
                yield _Sentence(self._beginning(event))
            case "CallStarting":
                if (said := self._calls.starting(event["call"])) is not None:
                    yield self._of_call(event["call"], said)
            case "CallApproved":
                said = self._sentences.in_words("Its call was agreed to, by {work}.", event, {})
                yield self._of_call(event["call"], said)
            case "Cancelled":
                reason = f": {shortened(event['reason'], LONGEST)}" if event.get("reason") else ""
                yield _Sentence([f"It was cancelled{_by(event)}{reason}."])
            case "Signalled" if event.get("by") and not any(line.get("by") for line in facts):
                yield _Sentence([f"{person(event)} sent it the signal {event['name']}."])
            case "Redefined":
                version = event["version"][:12]
                yield _Sentence([f"It goes on with version {version}, for it has taken nothing yet."])
            case "Migrated":
                way = "goes back to" if event.get("undoes") else "goes on with"
                yield _Sentence([f"It {way} version {event['version'][:12]}{_by(event)}."])
            case "Unreadable":
                yield _Sentence([f"This cannot be read: {event['message']}."])
        if made := made_by(facts):
            yield _Sentence(["It made ", *self._sentences.named(made), "."])

    def _of_quiet(self, event: Row) -> Iterator[_Sentence]:
        """The sentence on an entry that has no other sentence."""
        match event["what"]:
            case "Matched":
                yield _Sentence([*self._sentences.named([event["eid"]]), " came."])
            case "TimerFired":
                yield self._of_call(event["wake"], ["A moment came."])
            case "Signalled":
                yield _Sentence([f"Signal {event['name']} came."])

    def _of_call(self, id: str, said: Said) -> _Sentence:
        return _Sentence(said, self._calls.part_of(id), self._word)

    def _beginning(self, event: Row) -> Said:
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

    def _of_facts(self, row: JournalRow, facts: list[Row]) -> Iterator[_Sentence]:
        watches = {line["watch"]: line for line in facts if line["what"] == "Watch"}
        for line in facts:
            if "token" in line and "node" in line:
                self._tokens[line["token"]] = line["node"]
            match line["what"]:
                case "Call":
                    part, said = self._calls.begin(row, line)
                    yield _Sentence(said, part, self._word)
                case "Start":
                    at = [" at ", {"moment": moment(line["due"])}] if line.get("due") else []
                    yield _Sentence([f"The next run of {line['name']} begins", *at, "."])
                case "Finish":
                    yield _Sentence(self._finish(line))
                case what if (fact := self._facts.get(what)) is not None:
                    said = self._sentences.in_words(fact.words, line, watches)
                    for part, word in self._parts(fact, line) if said else ():
                        yield _Sentence(said, part, word, fact.begins)

    def _parts(self, fact: Fact, line: Row) -> Iterator[tuple[str, str]]:
        """The parts that a change is about, each with its sort."""
        if not fact.part:
            yield "", ""
        elif fact.part == "call":
            yield self._calls.part_of(line["call"]), self._word
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
                if self._now is None:  # for an ended run, its journal is read for it
                    self._now = definition_of(self._agent, self._run), state_of(self._agent, self._run)
                view = engine.token_view(*self._now, token)
            except (RequestError, UnreadableError, KeyError):
                view = {}
            self._tokens[token] = str((view.get("node") or {}).get("id", ""))
        return self._tokens.get(token, "") if token is not None else ""

    def _finish(self, line: Row) -> Said:
        said: Said = [f"The run is {line['state']}"]
        error = error_of(self._agent, self._run) if line.get("error") else None
        if error is not None:
            why = shortened(f"{error.kind}: {without_secrets(error.message)}", LONGEST)
            said.append(f"{error.where}: {why}")
        elif line.get("eids"):
            said += [", and gave ", *self._sentences.named(line["eids"])]
        return [*said, "."]


def _by(event: Row) -> str:
    return f" by {person(event)}" if event.get("by") else ""
