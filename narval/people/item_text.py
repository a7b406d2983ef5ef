"""The text that an item of work shows, as it was recorded when it was offered, and where it may be told."""

from __future__ import annotations

from narval.agent.agent import AgentState
from narval.core.errors import UnreadableError
from narval.core.source.secrets import hide_secrets
from narval.core.trust.origins import secrets_of
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


def secrets_shown(agent: AgentState, item: int) -> set[str]:
    """The names of the secrets that an item says, or asks about: neither mail nor chat tells of them."""
    memory = agent.memory
    return {name for eid in (item, *memory.contexts.of(item)) for name in secrets_of(memory.labels, eid)}


def look_at(item: int, agent: str = "") -> str:
    """The sentence that takes the place of what is secret."""
    of = f" --agent {agent}" if agent else ""
    return f"It is secret, so it is not told here. `narval work show {item}{of}` shows it, as do the pages."
