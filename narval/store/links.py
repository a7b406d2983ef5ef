"""Links in a store: the records for the row that represents a peer, and its new incarnation when a backup is
restored.
"""

from __future__ import annotations

import secrets
import time
from typing import Any

import msgspec

from narval.store.store import AgentStore

LINK = "link"
"""The scope of results with the progress of each sender of the peer, by its id, and, as `MET`, the peer's
identity when the link last began.
"""

MET = "met"

FORMER = "former links"
"""The scope of results whose keys are the peer's former identities."""

RESTORED = "restored"
"""The scope of results by incarnation that a restored backup has begun: the number of the last message of
each sender here, by its id, according to the backup.
"""

SENT = "sent"
"""The scope of results whose keys are the ids of the latest messages that the peer has taken but not
answered, each with its kind and its receiver there.
"""

INCARNATION = "incarnation"
"""The fact with the incarnation of the store after a restore; before that, it is the row's id."""

ANSWERED = b""
"""The data of a waiting message after it is answered or has expired."""

encode_numbers = msgspec.msgpack.Encoder().encode
decode_numbers = msgspec.msgpack.Decoder(dict[str, int]).decode
"""The encoder and the decoder of the numbers in a row of `RESTORED`."""

_PEERS = "SELECT agent FROM agents WHERE substr(name, 1, 1) = '@'"

_SENT = """
SELECT agents.id, max(sent.number) FROM agents JOIN (
    SELECT sender, number FROM messages WHERE agent = ?
    UNION ALL SELECT sender, number FROM taken WHERE agent = ?
) AS sent ON sent.sender = agents.agent GROUP BY agents.id"""
"""The number of the last message that each agent has sent to a peer, waiting or taken."""

_RESULT = "INSERT INTO results VALUES (?, ?, ?, ?, ?)"
_NO_FACT = 'DELETE FROM meta WHERE agent = ? AND "key" = ?'
_FACT = "INSERT INTO meta VALUES (?, ?, ?)"


def set_links_apart(target: Any, mark: str) -> None:
    """Give the links of a restored store a new incarnation, so that later messages differ from earlier ones
    with the same numbers. `mark` is the connection's placeholder for a parameter.
    """

    for (agent,) in target.execute(_PEERS).fetchall():
        sent = target.execute(_SENT.replace("?", mark), (agent, agent)).fetchall()
        later = f"{time.time_ns():016x}{secrets.token_hex(8)}"  # the other side orders incarnations by it
        row = agent, RESTORED, later, time.time(), encode_numbers(dict(sent))
        target.execute(_RESULT.replace("?", mark), row)
        set_fact(target, mark, agent, INCARNATION, later)


def set_fact(target: Any, mark: str, agent: int, key: str, value: str) -> None:
    """Set a small fact of an agent in a restored store."""
    target.execute(_NO_FACT.replace("?", mark), (agent, key))
    target.execute(_FACT.replace("?", mark), (agent, key, value))


def answered(store: AgentStore) -> frozenset[str]:
    """The ids of the waiting messages to a peer that are answered or have expired."""
    return frozenset(row.key for row in store.results(SENT) if row.data == ANSWERED)
