"""The text of an item of work, as recorded when it was offered, and where it may be shown.

Messages to people leave the home, so its rules judge them as calls. No approval is asked for: if a rule asks
or refuses, the message gives only the number of the item.
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
    """The text that an item shows; "" if that is lost (P10)."""
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
    """The names of the secrets that an item contains or asks for."""
    memory = agent.memory
    return {name for eid in (item, *memory.contexts.of(item)) for name in secrets_of(memory.labels, eid)}


def is_untold(agent: AgentState, item: int) -> bool:
    """True if the rules of the home let mail and chat give only the number of an item."""
    rules, memory, run = agent.lookup.rules, agent.memory, agent.runs.get(item)
    if rules is None or run is None or not memory.labels.pages:
        return False
    inputs = ((TEXT, tuple(eid for eid in memory.contexts.of(item) if not memory.is_run(eid))),)
    notice = Call("", NOTICE, run.name, "", inputs=inputs)
    return decide(rules, facts_of(agent, rules, run, notice, None)).then != "allow"


def look_at(item: int, agent: str = "") -> str:
    """The sentence that replaces a text that may not be shown."""
    of = f" --agent {agent}" if agent else ""
    shows = f"`narval work show {item}{of}` shows it, as do the pages"
    return f"Rules of the home withhold it here. {shows}."
