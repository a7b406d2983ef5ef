"""The operation `migration_plan`: what `migrate` would do to a run, with both graphs."""

from __future__ import annotations

from typing import Any

from narval.agent.history import last_migration
from narval.agent.replay import definition_of
from narval.ask.json_forms import moment
from narval.ask.lookup import find_run
from narval.ask.registry import Form, operation
from narval.ask.runs.drawing import form, graph_of
from narval.ask.runs.migrating import Versions, planned, target_of
from narval.core.engines.engine import Migratable
from narval.core.errors import DefinitionError, RequestError, UnreadableError
from narval.daemon.daemon import Daemon


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
