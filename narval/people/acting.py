"""Telling a run something in the name of a person, and the text that an item showed."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from narval.agent.turn import Turn
from narval.core.engines.commands import Answer
from narval.core.engines.events import Signalled
from narval.core.errors import UnreadableError
from narval.core.source.secrets import hide_secrets
from narval.store import codec
from narval.store.store import AgentStore


def deliver_act(turn: Turn, run: int, event: Signalled) -> Iterator[Answer]:
    """Deliver a signal to a run, under the next id; its answer, recorded with the turn."""
    signal = str(turn.agent.numbers.last + 1)
    before = len(turn.transaction.outer)
    turn.tell(run, replace(event, signal=signal))
    for _, command in turn.transaction.outer[before:]:
        if isinstance(command, Answer) and command.signal == signal:
            yield command


def text_shown(store: AgentStore, item: int) -> str:
    """The text that an item shows, as it was recorded when it was offered (P10); "" where that is lost."""
    for row in store.journal(item):
        try:
            lines = codec.describe_entry(row.data, row.run, row.seq)
        except UnreadableError:
            continue
        for line in lines:
            if line["what"] == "Offered":
                return str(hide_secrets(line)["text"])
    return ""
