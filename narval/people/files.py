"""The files with which people answer work: writing the offered file, and reading the answer (P55–P57)."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from narval.agent.agent import AgentState
from narval.agent.labelling import labels_at
from narval.agent.replay import definition_of, state_of
from narval.agent.run import Run
from narval.agent.turn import Turn
from narval.core.definitions.people.directory import Person, day_of
from narval.core.elements.canonical import elements_of, parse_untrusted, roots_of
from narval.core.elements.element import local_name, parse
from narval.core.engines.engine import Lookup
from narval.core.engines.events import PersonsAct, Plain, Signalled
from narval.core.engines.view import View
from narval.core.errors import ElementError
from narval.kinds.work.engine.ending import over
from narval.kinds.work.engine.listing import Worklist, acts_open_to, may_see
from narval.kinds.work.engine.state import WorkState, task_ways
from narval.kinds.work.language.definition import WorkDefinition
from narval.system.logins import login

WORK_FOLDER, DONE, REFUSED_ANSWERS = "work", "done", "../refused"
"""The folder of a home with a folder for each person, and in that the answers and the refused answers."""

FILE = "file"
"""The way of answering by a file."""

MOST_BYTES_OF_ANSWER = 1 << 20


class FiledAnswer(NamedTuple):
    """The answer in a file; with `state` it moves the task that asks. `shown` is the digest of the text that
    was shown, `lines` are the lines of the fields, and of the answer under "".
    """

    item: int
    shown: str
    outcome: str
    fields: dict[str, list[str]]
    state: str = ""
    lines: Mapping[str, int] = MappingProxyType({"": 1})


def name_of(run: Run) -> str:
    """The name of the file offered for an item; "", which no file has, for a run that is not an item."""
    return f"{run.eid}-{run.name}.xml" if run.engine.definition_kind == WorkDefinition.kind else ""


def version(listed: Callable[..., Worklist]) -> int:
    """A number that changes whenever an item changes; `listed` gives the worklist."""
    return listed(WorkDefinition.kind, Worklist).version


def items_asked(
    listed: Callable[..., Worklist], agent: AgentState, view: View, at: float, person: str
) -> Iterator[Run]:
    """The items that a person may answer by file now, and has not answered yet."""
    for eid in listed(WorkDefinition.kind, Worklist).of(person, view.people, day_of(at, view.zone)):
        run = agent.runs[eid]
        claim = run.state.claim
        if (
            FILE in run.definition.ways_of(view.people)
            and person not in run.state.votes
            and (claim is None or claim.by == person)
            and "answer" in acts_open_to(run.definition, run.state, person, at, view, "file")
        ):
            yield run


def offered_file(run: Run, person: str, text: str, element: Lookup) -> str:
    """The file offered to a person: the item's text as a comment, and an answer to fill in.

    `element` gives the element of the task that asks, from whose states one may choose.
    """
    item, definition, state = run.eid, run.definition, run.state
    fields = {**state.defaults, **state.drafts.get(person, {})}
    lines = [
        f"  <{name}>{escape(value, quote=False)}</{name}>"
        for name in definition.fields
        for value in fields.get(name) or ("",)
    ]
    outcomes = ", ".join(outcome.name for outcome in definition.outcomes)
    instructions = f"Say an outcome ({outcomes}), fill in the fields, and move this file to done/."
    ways, moves = task_ways(state, element), ""
    if ways is not None and ways.moves:
        where = f"The task is in {ways.at or 'no state yet'}. To move it, say a state"
        instructions += f"\n{where} ({', '.join(ways.moves)}) in place of an outcome."
        moves = ' state=""'
    root = f'<answer item="{item}" shown="{state.shown}" outcome=""{moves}>'
    comment = _in_comment(f"{text}\n{instructions}\n")
    return "\n".join(
        ['<?xml version="1.0" encoding="utf-8"?>', f"<!--\n{comment}-->", root, *lines, "</answer>", ""]
    )


def read_answer(content: bytes) -> FiledAnswer:
    """Read the answer in a file. Raises ElementError, with line and column if it is not well formed."""
    elements = elements_of(content)
    root = parse(elements[0]) if len(elements) == 1 else None
    if root is None or local_name(root.tag) != "answer":
        raise ElementError("invalid", "expected one element answer, as the file that was offered has it")
    item, shown = root.get("item", ""), root.get("shown", "")
    if not (item.isascii() and item.isdigit() and len(item) <= 18) or not shown:
        raise ElementError("invalid", "expected the attributes item and shown as they were offered")
    fields: dict[str, list[str]] = {}
    (written,) = roots_of(parse_untrusted(content))  # the lines are those of the file
    lines = {local_name(child.tag) or "": child.sourceline or 1 for child in written.iterchildren("*")}
    lines[""] = written.sourceline or 1
    for child in root.iterchildren("*"):
        name = local_name(child.tag)
        if len(child) or not name:
            raise ElementError("invalid", f"{name}: expected a text, found elements")
        if text := (child.text or "").strip():
            fields.setdefault(name, []).append(text)
    outcome, state = root.get("outcome", "").strip(), root.get("state", "").strip()
    if outcome and state:
        raise ElementError("invalid", "expected an outcome, which ends the task, or a state to move it to")
    return FiledAnswer(int(item), shown, outcome, fields, state, lines)


def deliver_answer(
    turn: Turn, person: Person, owner: str, path: str, answer: FiledAnswer
) -> ElementError | None:
    """Deliver a person's answer, from a file at `path`, to its item; return why it is refused, if it is."""
    agent, run = turn.agent, turn.agent.runs.get(answer.item)
    state = state_of(agent, run) if run is not None and name_of(run) else None
    has_seen = state is not None and answer.shown == state.shown
    if run is None or state is None or not (has_seen or _sees(turn, run, state, person.name)):
        return _refused(answer, "no-item", f"there is no item {answer.item} that you may see")
    arguments: dict[str, Plain] = {"state": answer.state, "shown": answer.shown}
    if not answer.state:
        arguments = {"outcome": answer.outcome, "fields": {**answer.fields}, "shown": answer.shown}
    written = labels_at(agent, path)
    way = PersonsAct(FILE, path, who="program" if written else "file")
    what = "move" if answer.state else "answer"
    act = Signalled(0, 0.0, "", what, arguments=arguments, by=person.name, actor=owner, act=way)
    turn.transaction.label(run.eid, written)
    answers = turn.signal(run.eid, act)
    if not answers:
        return _refused(answer, "over", over(state, turn.view.zone))
    problem = answers[0].problem
    return _refused(answer, problem.kind, problem.message, problem.detail) if problem is not None else None


def _refused(answer: FiledAnswer, kind: str, message: str, detail: str = "") -> ElementError:
    """The error of a refused answer, at the line of the first wrong field, else at that of the answer."""
    wrong = json.loads(detail) if kind == "bad-field" and detail else []
    lines = [answer.lines.get(misfit["field"], answer.lines[""]) for misfit in wrong] or [answer.lines[""]]
    return ElementError("invalid", f"{kind}: {message}", min(lines))


def _sees(turn: Turn, run: Run, state: WorkState, person: str) -> bool:
    return may_see(definition_of(turn.agent, run), state, person, turn.transaction.at, turn.view)


def owner_of(status: os.stat_result, person: Person, home: os.stat_result) -> str:
    """The login of the owner of a person's file or folder: the person, or the home's user (P56).

    Raises ElementError for any other owner, for a folder that others may write to, and for a hard link.
    """
    owner = login(status.st_uid)
    if status.st_uid != home.st_uid and owner != person.login:
        raise ElementError("invalid", f"not-yours: it belongs to {owner}, and not to {person.name}")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and stat.S_ISDIR(status.st_mode):
        raise ElementError("invalid", "not-yours: others may write to it; `chmod go-w` takes that away")
    if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
        raise ElementError("invalid", f"not-yours: it has {status.st_nlink} names (hard links); copy it")
    return owner


def check_folder(folder: Path, person: Person, home: os.stat_result) -> None:
    """Raise ElementError unless a person's folder and its subfolders are folders of the person."""
    for path in (folder, folder / DONE, folder / DONE / ".taken", folder / DONE / REFUSED_ANSWERS):
        try:
            status = Path(os.path.normpath(path)).lstat()
        except FileNotFoundError:
            continue
        if not stat.S_ISDIR(status.st_mode):
            raise ElementError("invalid", f"not-yours: {path.name} is no folder")
        owner_of(status, person, home)


def write_offered(folder: Path, name: str, text: str) -> None:
    """Write a file into a person's folder atomically, readable by its owner. Raises OSError."""
    scratch, owner = folder / f".{name}.tmp", folder.stat()
    scratch.unlink(missing_ok=True)
    handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(text)
        if owner.st_uid != os.geteuid():
            try:
                os.fchown(handle, owner.st_uid, -1)
            except PermissionError:
                os.fchmod(handle, 0o644)
    scratch.rename(folder / name)


def _in_comment(text: str) -> str:
    while "--" in text:
        text = text.replace("--", "-\\u{002d}")
    return text
