"""The text that an item of work shows, as it was recorded when it was offered."""

from __future__ import annotations

from narval.core.errors import UnreadableError
from narval.core.source.secrets import hide_secrets
from narval.store import codec
from narval.store.store import AgentStore


def text_shown(store: AgentStore, item: int) -> str:
    """The text that an item shows; "" where that is lost (P10)."""
    for row in store.journal(item):
        try:
            lines = codec.describe_entry(row.data, row.run, row.seq)
        except UnreadableError:
            continue
        for line in lines:
            if line["what"] == "Offered":
                return str(hide_secrets(line)["text"])
    return ""
