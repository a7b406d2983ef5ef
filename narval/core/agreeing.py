"""The table of who may agree to what, and the single function that operations and engines ask.

An asker is classified by its channel. The rights of a particular person, such as an administrator or one to
whom an item is offered, are checked in addition, where people are known, and never instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

Role = Literal["reader", "person", "operator"]
"""The rights of a person on pages and in chats."""

Who = Role | Literal["owner", "another", "file", "program", "client", "caller", "peer"]
Act = Literal[
    "read",
    "write",
    "people",
    "agree",
    "let-out",
    "always",
    "grant",
    "endorse",
    "administer",
    "serve",
    "speak",
    "vouch",
]

ASKERS: Mapping[Who, str] = MappingProxyType(
    {
        "owner": "the owner of the home or root at a terminal, or the program that opened the home",
        "operator": 'a person with `web = "operator"` in `etc/people.toml`',
        "reader": 'a person with `web = "reader"`, by page or chat',
        "person": "another person",
        "another": "the owner or root in the name of another (`--as`)",
        "file": "a file in the folder of a person",
        "program": "a program that a run has started",
        "client": "a client of MCP",
        "caller": "a program that calls by HTTP",
        "peer": "another home",
    }
)
"""The kinds of askers; people come by terminal, page, chat or mail."""


class Row(NamedTuple):
    """An act: its words, the askers who may do it, the words for them, and what others can do instead."""

    does: str
    may: tuple[Who, ...]
    only: str
    instead: str


OWNERS: tuple[Who, ...] = ("owner", "operator")
PEOPLE: tuple[Who, ...] = (*OWNERS, "person", "another", "file")
_ROLES = "`web` in etc/people.toml gives a person the right"
_OPERATORS = 'the owner of the home and operators (web = "operator" in etc/people.toml), in their own name'

ACTS: Mapping[Act, Row] = MappingProxyType(
    {
        "read": Row(
            "see what the home remembers and does",
            (*OWNERS, "reader", "another", "program", "client", "caller", "peer"),
            "readers and operators", _ROLES,
        ),
        "write": Row(
            "alter what the home remembers and does",
            (*OWNERS, "another", "program", "client", "caller", "peer"),
            "operators", _ROLES,
        ),
        "people": Row(
            "do what people do themselves, such as answer work", (*PEOPLE, "program", "client"),
            "people with work, their programs and clients", "ask a person by work",
        ),
        "agree": Row(
            "agree to what a person is to decide", PEOPLE,
            "people", "`narval work` lists what waits for them",
        ),
        "let-out": Row(
            "answer what a rule of the home asks about", OWNERS, _OPERATORS,
            "`narval work` lists it for them",
        ),
        "always": Row(
            "answer always, which adds a rule", OWNERS, _OPERATORS, "answer once",
        ),
        "grant": Row(
            "grant, accept a proposal, or edit definitions and settings", OWNERS, _OPERATORS,
            "the owner does it by `narval grant NAME`",
        ),
        "endorse": Row(
            "endorse an element", ("owner",),
            "the owner of the home and root, in their own name", "they do by `narval trust EID --endorse`",
        ),
        "administer": Row(
            "administer what others do", (*OWNERS, "person", "another", "program"),
            "administrators, the owner of the home and root", "ask one ([admin] in etc/people.toml)",
        ),
        "serve": Row(
            "speak for a client of MCP", ("owner", "program"),
            "programs of the owner", "ask in your own name",
        ),
        "speak": Row(
            "speak for a chat, a webhook, a caller or a peer", ("owner",),
            "programs that the owner has started, or the daemon keeps", "ask in your own name",
        ),
        "vouch": Row(
            "make a login, a token or a code by which somebody is known here", ("owner",),
            "the owner of the home and root, in their own name", "ask them for it",
        ),
    }
)  # fmt: skip
"""The acts of agreeing to something, or of speaking for somebody."""


def refusal(act: Act, who: Who, by: str = "", actor: str = "") -> str:
    """The reason why an asker may not do an act; "" if it may. `by` is the name of a person and `actor` the
    real asker.
    """
    return "" if who in ACTS[act].may else sentence(act, who, by, actor)


def sentence(act: Act, who: Who, by: str = "", actor: str = "") -> str:
    """The sentence that refuses an act: who may not do it, why, and what to do instead."""
    row = ACTS[act]
    return f"{_named(who, by, actor)} may not {row.does}: that is for {row.only}; {row.instead}"


def _named(who: Who, by: str, actor: str) -> str:
    if who == "another":
        return f"{actor} in another's name"
    if who == "file":
        return f"a file of {by}"
    return actor or by or ASKERS[who]


def roles(act: Act) -> tuple[Role, ...]:
    """The rights on pages and in chats that allow an act."""
    return tuple(role for role in get_args(Role) if role in ACTS[act].may)


def rows() -> list[str]:
    """The table for docs/explanation/security.md."""
    lines = [f"| | {' | '.join(ASKERS)} |", f"|---{'|---' * len(ASKERS)}|"]
    for row in ACTS.values():
        cells = ("yes" if who in row.may else "" for who in ASKERS)
        lines.append(f"| {row.does} | {' | '.join(cells)} |")
    return lines
