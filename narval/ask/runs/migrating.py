"""The operations `migrate` and `migration_plan`: active runs continue with another version of their
definition.

The plan says what `migrate` would do to a run, with both graphs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import msgspec

from narval.agent.agent import AgentState
from narval.agent.history import last_migration, state_before
from narval.agent.replay import definition_of
from narval.agent.run import Run
from narval.agent.runs import is_withheld
from narval.agent.turn import Turn
from narval.ask.asker import PROGRAM, Asker
from narval.ask.definitions.definition import changes, told
from narval.ask.json_forms import moment
from narval.ask.lookup import active_run, command, files_of, find_run, stays
from narval.ask.registry import Form, operation
from narval.ask.runs.drawing import form, graph_of
from narval.core.definitions.library import Definition, check_targets
from narval.core.engines.engine import Migratable
from narval.core.engines.events import Migrated
from narval.core.engines.registry import standing_kinds
from narval.core.engines.run_state import Migration, NoPlace
from narval.core.errors import DefinitionError, Fault, RequestError, UnreadableError
from narval.core.source.text import Source
from narval.daemon.daemon import Daemon
from narval.files.agents.collections import parse_file
from narval.files.loaded import Loaded
from narval.store.batch import DefinitionRow

AT_ONCE = 25
"""The most runs that migrate in one turn, so that other work gets turns in between."""

MOST_DIGITS = 18
"""The most digits of the number of a run."""


@operation("write")
async def migrate(
    daemon: Daemon,
    runs: list[str],
    text: str | None = None,
    path: str = "",
    names: dict[str, str] | None = None,
    undo: bool = False,
    dry: bool = False,
    version: str = "",
    *,
    asker: Asker = PROGRAM,
) -> Form:
    """Migrate active runs to another version of their definition: the loaded one, or that of `text`, the text
    of the file at `path`.

    `runs` are numbers, or patterns of the names of definitions, which stand for all their active runs.
    `names` are those of renamed parts, old to new. With `undo`, each run returns to the version and the state
    that it had before it was migrated, if nothing has happened to it since. With `dry`, nothing is changed.
    With `version`, a digest, a run whose target is another version is refused.

    The answer is `{"runs", "differences"}`. A run has `version`, the one that it then follows, `before`, the
    one until now, and `outcome`: "migrated", "would migrate", "same version", "refused", or "failed" if it
    failed as it continued. `kept` are the parts that keep their state, `gone` the removed ones, `new` the
    added ones, `begins` those that start at once, and `refused` says why the run stays unchanged, each with
    file, line and column. `differences` are the sentences in which the versions differ.
    """
    if undo and (text is not None or names):
        raise RequestError("expected the version to go on with, or undo, and not both")
    if text is None and not undo and daemon.follows_files:
        await daemon.reloader.reload()  # its file may have just been saved
    meant = list(_meant(daemon, runs))
    versions = Versions(daemon, text, path, names or {}, version)
    rows: list[Form] = []
    for first in range(0, len(meant), AT_ONCE):
        some = meant[first : first + AT_ONCE]

        def work(turn: Turn, some: list[Run] = some) -> list[Form]:
            return [_one(turn, run, versions, asker, undo=undo, dry=dry) for run in some]

        rows += await daemon.host.submit(work)
    return {"runs": rows, "differences": versions.differences}


def _meant(daemon: Daemon, runs: list[str]) -> Iterator[Run]:
    """The named runs, each once. Raises RequestError if one does not exist."""
    if not runs:
        raise RequestError("expected numbers of runs, or patterns of the names of definitions")
    active = daemon.agent.runs.active
    meant: dict[int, Run] = {}
    for name in runs:
        if name.isdecimal() and len(name) <= MOST_DIGITS:
            run = active_run(daemon, int(name))
            meant[run.eid] = run
            continue
        fitting = {eid: run for eid, run in active.items() if fnmatchcase(run.name, name)}
        if not fitting:
            listing = command(daemon, "runs --state active")
            raise RequestError(f"no run of {name} is active; `{listing}` lists those that are")
        meant |= fitting
    yield from meant.values()


class Target(NamedTuple):
    """The version for a run, and its migration to it; `undoes` is the line that is undone."""

    definition: Any
    migration: Migration
    undoes: int = 0


class Versions:
    """The versions to continue with: those of a file, or the loaded ones."""

    def __init__(
        self, daemon: Daemon, text: str | None, path: str, names: Mapping[str, str], expected: str = ""
    ) -> None:
        self._daemon, self.names, self._expected = daemon, names, expected
        self.path = path
        self._of_file = None if text is None else _loaded(daemon, text, path)
        self._told: dict[tuple[str, str], list[Form]] = {}
        self._faults: dict[str, list[Fault]] = {}

    def of(self, run: Run) -> Definition:
        """The version for a run. Raises RequestError if there is none, DefinitionError."""
        kind, library = run.engine.definition_kind, self._daemon.agent.library
        if self._of_file is None:
            definition = library.get(kind, run.name)
            if definition is None:
                raise RequestError(f"there is no definition {run.name} any more; name a file that has it")
        else:
            own = [one for one in self._of_file.library.of(kind).values() if one.path == self.path]
            definition = next((one for one in own if one.full_name == run.name), None)
            if definition is None:
                has = ", ".join(sorted(one.full_name for one in own)) or f"no {kind}"
                raise RequestError(f"expected {run.name} in {self.path}, which has {has}")
            if faults := self._faults_of(definition):
                raise DefinitionError(faults)
        if self._expected and definition.digest != self._expected:
            raise RequestError("another version was loaded meanwhile: look at it first")
        if is_withheld(definition):
            grant = command(self._daemon, f"grant {run.name}")
            raise RequestError(f"what {run.name} needs in this version is not granted; `{grant}` grants it")
        return definition

    def _faults_of(self, definition: Definition) -> list[Fault]:
        """The faults in what a version of the file calls, computed once."""
        digest, library = definition.digest, self._daemon.agent.library
        if digest not in self._faults:
            self._faults[digest] = check_targets(definition.references, library.replace((definition,)))
        return self._faults[digest]

    def note(self, old: Definition, new: Definition) -> None:
        """Compare the sentences of two versions, once for each pair."""
        if (old.digest, new.digest) not in self._told:
            library = self._daemon.agent.library
            pair = (told(version, library) for version in (old, new))
            self._told[old.digest, new.digest] = list(changes(*pair))

    @property
    def differences(self) -> list[Form]:
        """The sentences in which the versions differ, by pair."""
        return [
            {"before": before, "version": version, "sentences": sentences}
            for (before, version), sentences in self._told.items()
        ]


def _loaded(daemon: Daemon, text: str, path: str) -> Loaded:
    """The loaded definitions, with those of a file in place of their own. Raises DefinitionError."""
    if daemon.agent.lookup.grants is not None:
        raise RequestError(
            "this home holds definitions against what was granted to them: put the file into it, grant what "
            "it needs (`narval grant`), and give `--to current`"
        )
    source = Source(path, text.encode())
    return files_of(daemon).loaded.with_parsed(source, parse_file(source))


def _one(turn: Turn, run: Run, versions: Versions, asker: Asker, *, undo: bool, dry: bool) -> Form:
    """Migrate one run, or say why not."""
    row = _row(run)
    try:
        target = _undone(turn, run) if undo else target_of(turn.agent, run, versions)
        before = definition_of(turn.agent, run)
    except (RequestError, DefinitionError, UnreadableError) as error:
        return {**row, "outcome": "refused", "refused": [{"part": "", "why": str(error)}]}
    definition, migration, _ = target
    row = planned(run, before, target)
    if not migration.refused and definition.digest == run.digest and not versions.names:
        return {**row, "outcome": "same version"}
    versions.note(before, definition)
    if migration.refused:
        return {**row, "version": run.digest, "outcome": "refused"}
    if dry:
        return {**row, "outcome": "would migrate"}
    _go_on(turn, run, before, target, versions.names, asker)
    if run.phase == "failed":
        why = f"the run failed as it went on with this version; `narval why {run.eid}` says why"
        return {**row, "outcome": "failed", "refused": [{"part": "", "why": why}]}
    return {**row, "outcome": "migrated"}


def _row(run: Run) -> Form:
    """The row of a run that is left unchanged."""
    return {"run": run.eid, "name": run.name, "before": run.digest, "version": run.digest}


def planned(run: Run, before: Definition, target: Target) -> Form:
    """The row of a run that continues with a version, or cannot: what happens to its parts."""
    definition, migration, _ = target
    return {
        **_row(run),
        "version": definition.digest,
        "kept": [part._asdict() for part in migration.keeps],
        "gone": list(migration.gone),
        "new": list(migration.new),
        "begins": list(migration.begins),
        "refused": [_place(before, definition, place) for place in migration.refused],
    }


def target_of(agent: AgentState, run: Run, versions: Versions) -> Target:
    """The version that a run is to continue with, and its state there. Raises RequestError, DefinitionError,
    UnreadableError.
    """
    engine = _migratable(run)
    definition = versions.of(run)
    old = definition_of(agent, run)
    return Target(definition, engine.migrated(old, definition, run.state, versions.names))


def _migratable(run: Run) -> Migratable:
    """The engine of a run that can continue with another version. Raises RequestError."""
    engine = run.engine
    if not run.active or run.state is None:
        raise RequestError(f"run {run.eid} of {run.name} is over, or cannot be read")
    if run.kind in standing_kinds().values():
        raise RequestError(f"run {run.eid} of {run.name} follows the newest version by itself")
    if not isinstance(engine, Migratable):
        raise RequestError(f"run {run.eid} of {run.name} cannot be migrated: {stays(run)}")
    return engine


def _undone(turn: Turn, run: Run) -> Target:
    """The version and the state that a run had before it was migrated. Raises RequestError."""
    _migratable(run)
    agent = turn.agent
    last = last_migration(agent, run)
    went_on = last is not None and any(entry.run == run.eid for entry in turn.transaction.batch.journal)
    if last is None or went_on:
        raise RequestError(f"run {run.eid} of {run.name} was not migrated, or has gone on since")
    if last.undoes:
        raise RequestError(f"the migration of run {run.eid} of {run.name} was taken back already")
    return Target(last.definition, Migration(state_before(agent, run, last.seq)), last.seq)


def _go_on(
    turn: Turn, run: Run, before: Definition, target: Target, names: Mapping[str, str], asker: Asker
) -> None:
    """Let a run follow a version, and notify the run; the version is stored like others."""
    definition, transaction = target.definition, turn.transaction
    if turn.agent.store.definition(definition.digest) is None:
        row = DefinitionRow(
            definition.digest, definition.kind, run.name, definition.path, definition.xml, turn.at, False
        )
        transaction.batch.definitions.append(row)
    event = Migrated(
        0,
        0.0,
        before.digest,
        definition.digest,
        before.xml,
        before.path,
        msgspec.msgpack.encode(target.migration.state),
        dict(names),
        target.undoes,
        **asker.recorded,
    )
    run.follow(definition, turn.agent.library)
    transaction.alter(run)
    transaction.label(run.eid, transaction.comes_with)
    turn.tell(run.eid, event)


def _place(before: Definition, after: Definition, place: NoPlace) -> Form:
    """A part without a place, with its line and column."""
    definition = before if place.before else after
    lines = definition.xml.decode("utf-8", "replace").splitlines()
    at = place.line - definition.line
    written = lines[at] if 0 < at < len(lines) else ""
    column = len(written) - len(written.lstrip()) + 1
    return {
        "part": place.part,
        "why": place.why,
        "file": definition.path,
        "line": place.line,
        "column": column,
        "version": definition.digest,
    }


@operation("read")
async def migration_plan(
    daemon: Daemon, run: int, names: dict[str, str] | None = None, brief: bool = False
) -> Form:
    """The effects that `migrate` would have on a run with the loaded version; nothing is changed.

    `planned` is its row from `migrate` with `dry`; null if the run follows that version already, or cannot
    migrate: `refusal` says why. `differences` are the sentences in which the versions differ. `before` is the
    current graph of the run, `after` that of the version in the state that the run would have, with nothing
    started if it is refused. `undo` is the version that `migrate` with `undo` would restore, and the moment
    when the run left it, or null; with `brief` only `undo` is computed.
    """
    subject, agent = find_run(daemon, run), daemon.agent
    answer: Form = {"run": run, "name": subject.name, "planned": None, "refusal": None, "differences": []}
    answer |= {"before": None, "after": None, "undo": _undo(daemon, run)}
    if brief:
        return answer
    versions = Versions(daemon, None, "", names or {})
    try:
        target = target_of(agent, subject, versions)
        before = definition_of(agent, subject)
    except (RequestError, DefinitionError, UnreadableError) as error:
        return {**answer, "refusal": str(error)}
    if target.definition.digest == subject.digest:
        return answer
    answer["planned"] = planned(subject, before, target)
    versions.note(before, target.definition)
    engine, is_refused = subject.engine, bool(target.migration.refused)
    state = engine.state_type.blank(0, target.definition) if is_refused else target.migration.state
    return {
        **answer,
        "differences": [row for pair in versions.differences for row in pair["sentences"]],
        "before": form(graph_of(engine, before, subject.state)),
        "after": form(graph_of(engine, target.definition, state)),
    }


def _undo(daemon: Daemon, eid: int) -> dict[str, Any] | None:
    """The version that a run would return to, and when it left it; None if there is none."""
    run = find_run(daemon, eid)
    if not run.active or run.state is None or not isinstance(run.engine, Migratable):
        return None
    try:
        last = last_migration(daemon.agent, run)
    except UnreadableError:
        return None
    if last is None or last.undoes:
        return None
    return {"version": last.definition.digest, "since": moment(last.at)}
