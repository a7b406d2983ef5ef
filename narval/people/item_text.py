"""The text that an item of work shows, as it was recorded when it was offered, and where it may be told.

What people are written goes outside, so the rules of the home judge it as a call. It is not asked about: if a
rule asks or refuses, the item is told by its number alone.
"""

from __future__ import annotations

from narval.agent.agent import AgentState
from narval.calls.verdicts import facts_of
from narval.core.engines.commands import NOTICE, Call
from narval.core.errors import UnreadableError
from narval.core.source.secrets import hide_secrets
from narval.core.trust.origins import secrets_of
from narval.core.trust.parts import TEXT
from narval.core.trust.rules import decide
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
    """The names of the secrets that an item says, or asks about."""
    memory = agent.memory
    return {name for eid in (item, *memory.contexts.of(item)) for name in secrets_of(memory.labels, eid)}


def is_untold(agent: AgentState, item: int) -> bool:
    """True of an item of which neither mail nor chat says more than the number, by the rules of the home."""
    rules, memory, run = agent.lookup.rules, agent.memory, agent.runs.get(item)
    if rules is None or run is None or not memory.labels.pages:
        return False
    shown = ((TEXT, tuple(eid for eid in memory.contexts.of(item) if not memory.is_run(eid))),)
    notice = Call("", NOTICE, run.name, "", inputs=shown)
    return decide(rules, facts_of(agent, rules, run, notice, None)).then != "allow"


def look_at(item: int, agent: str = "") -> str:
    """The sentence that takes the place of what is not told."""
    of = f" --agent {agent}" if agent else ""
    shows = f"`narval work show {item}{of}` shows it, as do the pages"
    return f"The rules of the home do not let it be told here. {shows}."
