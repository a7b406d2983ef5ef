"""The labels of what a program of a run adds, and the label context of its work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from narval.agent.turn import Turn
from narval.ask.asker import Asker
from narval.core.engines.commands import Answer
from narval.core.engines.events import Signalled
from narval.core.memory.labels import PROGRAM, UNKNOWN
from narval.daemon.agents.agent_host import ASKER_CONTEXT, Work
from narval.daemon.daemon import Daemon


def as_program(daemon: Daemon, asker: Asker) -> Asker:
    """The asker of a program that was started for a call, with the labels of what it adds.

    These are `program`, and those of the calling run; `unknown` where they cannot be determined: the call has
    ended, or is at an agent that is not active here, or in another home.
    """
    for host in (daemon.host, *daemon.agents.supervisor.hosts):
        if (record := host.dispatcher.calls.find(asker.call)) is not None:
            labels, run = host.agent.memory.labels, record.call.run
            names = labels.names(labels.whole(labels.of((run,))))
            return replace(asker, labels=(PROGRAM, *names), program=f"a program of run {run}")
    return replace(asker, labels=(PROGRAM, UNKNOWN), program="a program of a run that is not at work here")


@contextmanager
def giving(asker: Asker) -> Iterator[None]:
    """Apply the labels of an asker, and of one who asks in its place, to everything that the work submitted
    inside the context adds and starts.
    """
    before = ASKER_CONTEXT.get()

    def labelled(work: Work) -> Work:
        def with_labels(turn: Turn) -> Any:
            with turn.transaction.coming_with(turn.agent.memory.labels.number(asker.labels)):
                return work(turn)

        return with_labels if before is None else before(with_labels)

    token = ASKER_CONTEXT.set(labelled if asker.labels else before)
    try:
        yield
    finally:
        ASKER_CONTEXT.reset(token)


def signal_in(turn: Turn, run: int, event: Signalled) -> list[Answer]:
    """Signal a run, which gets the labels of whoever asks for it."""
    turn.transaction.label(run, turn.transaction.comes_with)
    return turn.signal(run, event)
