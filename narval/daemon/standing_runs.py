"""Runs that follow the newest version of their definition: service runs, one for each loaded definition of
some kinds, and runs that have taken nothing yet (N31).
"""

from __future__ import annotations

from functools import partial

from narval.agent.agent import AgentState
from narval.agent.recovery import GONE
from narval.agent.run import Run
from narval.agent.runs import begin_service_run, is_withheld
from narval.agent.turn import Turn
from narval.core.engines.engine import redefinable
from narval.core.engines.events import Plain, Redefined, Signalled
from narval.core.engines.registry import standing_kinds

RELOAD = "reload"
"""The signal that tells a service run that its definition changed, or with `gone` that it was removed."""


def keep_standing(turn: Turn) -> None:
    """Start a service run for each definition that has none, and notify those whose definition has changed,
    has been removed, or has come back (K41, K70).
    """
    agent = turn.agent
    library, signals = agent.library, agent.signals
    for kind, run_kind in standing_kinds().items():
        definitions = library.of(kind)
        for name, definition in definitions.items():
            run = agent.runs.active.get(signals.standing.get(name, 0))
            if is_withheld(definition):
                continue  # a run that has begun continues with its version
            if run is None:
                begin_service_run(turn.transaction, definition, run_kind)
            elif run.digest != definition.digest or name in signals.gone:
                run.follow(definition)
                turn.transaction.alter(run)
                _tell(turn, run)
    gone = {
        name: run
        for name, eid in signals.standing.items()
        if name not in library.of((run := agent.runs[eid]).engine.definition_kind)
    }
    if gone.keys() == signals.gone:
        return
    for name, run in gone.items():
        if name not in signals.gone:
            _tell(turn, run, gone=True)
    signals.lack(frozenset(gone))
    turn.transaction.batch.meta.append((GONE, " ".join(sorted(gone))))


def follow_newest(turn: Turn) -> None:
    """Make each run that was not called, and that has taken nothing yet, continue with what is loaded now:
    the newest versions of its definition and of the definitions that this calls.
    """
    library = turn.agent.library
    for run in list(turn.agent.runs.active.values()):
        newest = library.get(run.engine.definition_kind, run.name)
        if run.library is library or newest is None or run.caller is not None or run.state is None:
            continue
        if is_withheld(newest):
            continue  # it continues with the granted version
        if has_taken_nothing(turn.agent, run):
            before = run.digest
            run.follow(newest, library)
            if newest.digest != before:
                turn.transaction.alter(run)
                turn.tell(run.eid, Redefined(0, 0.0, before, newest.digest))


def has_taken_nothing(agent: AgentState, run: Run) -> bool:
    """True for a run that still waits at its beginning, if its engine can tell."""
    engine = redefinable(run.engine)
    if engine is None or run.state is None:
        return False
    return engine.is_untouched(run.definition, run.state, partial(agent.lookup.definition, run))


def _tell(turn: Turn, run: Run, **arguments: Plain) -> None:
    """Notify a service run about its definition; the sender is the run: nothing else can send this."""
    told = Signalled(0, 0.0, "", RELOAD, arguments={**arguments, "from": run.eid}, sender=run.eid)
    turn.agent.queue.append((0, run.eid, told))
