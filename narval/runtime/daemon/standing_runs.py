"""Standing runs: of some kinds there is one for each definition that is loaded, and it follows the newest."""

from __future__ import annotations

from narval.engines.events import Plain, Signalled
from narval.engines.registry import standing_kinds
from narval.runtime.agent.recovery import GONE
from narval.runtime.agent.run import Run
from narval.runtime.agent.runs import begin_standing
from narval.runtime.agent.turn import Turn

RELOAD = "reload"
"""The signal by which a standing run is told that its definition is another, or with `gone` none."""


def keep_standing(turn: Turn) -> None:
    """Have a standing run begin for each definition that has none, and tell those whose definition is another
    now, has been removed, or has come back (K41, K70).
    """
    agent = turn.agent
    library, signals = agent.library, agent.signals
    for kind, run_kind in standing_kinds().items():
        definitions = library.of(kind)
        for name, definition in definitions.items():
            run = agent.runs.active.get(signals.standing.get(name, 0))
            if run is None:
                begin_standing(turn.transaction, definition, run_kind)
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


def _tell(turn: Turn, run: Run, **arguments: Plain) -> None:
    """Tell a standing run of its definition; the sender is the run, for nobody else can say so."""
    told = Signalled(0, 0.0, "", RELOAD, arguments={**arguments, "from": run.eid}, sender=run.eid)
    turn.agent.queue.append((0, run.eid, told))
