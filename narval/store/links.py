"""Links in a store: what the row that stands for a peer keeps of it, and how that is renewed as a backup is
put back.
"""

from __future__ import annotations

import secrets
import time
from typing import Any

import msgspec

from narval.store.store import AgentStore

LINK = "link"
"""The scope of results that has how far each sender of the peer has come, by its id; and, as `MET`, what the
peer was as the link began last.
"""

MET = "met"

FORMER = "former links"
"""The scope of results whose keys are what the peer was before, and is no more."""

RESTORED = "restored"
"""The scope of results that has, by each incarnation that a backup which was put back has made, the number of
the last message of each sender here, by its id, as it was there.
"""

SENT = "sent"
"""The scope of results whose keys are the ids of the latest messages that the peer has taken and has not
answered, each with its kind and its receiver there.
"""

INCARNATION = "incarnation"
"""The fact that has the incarnation of the store once a backup was put back; before, the row's id is it."""

ANSWERED = b""
"""The data, in place of these, of a message that is answered, or whose time is over, and that waits."""

encode_numbers = msgspec.msgpack.Encoder().encode
decode_numbers = msgspec.msgpack.Decoder(dict[str, int]).decode
"""Write and read the numbers of a row of `RESTORED`."""

_PEERS = "SELECT agent FROM agents WHERE substr(name, 1, 1) = '@'"

_SENT = """
SELECT agents.id, max(sent.number) FROM agents JOIN (
    SELECT sender, number FROM messages WHERE agent = ?
    UNION ALL SELECT sender, number FROM taken WHERE agent = ?
) AS sent ON sent.sender = agents.agent GROUP BY agents.id"""
"""The last message that each agent has sent to a peer: one that waits, or the last that was taken."""

_RESULT = "INSERT INTO results VALUES (?, ?, ?, ?, ?)"
_NO_FACT = 'DELETE FROM meta WHERE agent = ? AND "key" = ?'
_FACT = "INSERT INTO meta VALUES (?, ?, ?)"


def renew_links(target: Any, mark: str) -> None:
    """Give the links of a store that was just put back a new incarnation, by a connection whose sign for a
    parameter is `mark`: what is sent from now on is told from what was sent before under the same numbers.
    """

    def execute(statement: str, *values: Any) -> Any:
        return target.execute(statement.replace("?", mark), values)

    for (agent,) in target.execute(_PEERS).fetchall():
        sent = execute(_SENT, agent, agent).fetchall()
        later = f"{time.time_ns():016x}{secrets.token_hex(8)}"  # the other side tells later ones from earlier
        execute(_RESULT, agent, RESTORED, later, time.time(), encode_numbers(dict(sent)))
        execute(_NO_FACT, agent, INCARNATION)
        execute(_FACT, agent, INCARNATION, later)


def answered(store: AgentStore) -> frozenset[str]:
    """The ids of the messages to a peer that are answered, or whose time is over, and that wait."""
    return frozenset(row.key for row in store.results(SENT) if row.data == ANSWERED)
