"""The vocabulary of processes as a table: the elements and attributes, and their values."""

from __future__ import annotations

import re
from collections.abc import Mapping

from narval.core.definitions.reading.vocabulary import (
    COMMON,
    CONDITION,
    Attribute,
    Word,
    Words,
    anything,
    one_of,
    seconds,
)
from narval.core.definitions.suggestions import closest
from narval.kinds.process.language.code import EVENTS, mask_of
from narval.kinds.process.language.definition import JoinType

JOINS: tuple[JoinType, ...] = (
    "or", "and", "labelAnd", "tokenSet", "class", "tokenSetOr", "first", "joinlang"
)  # fmt: skip
"""The joins, in the order in which the source numbers them."""

ALIASES: Mapping[str, JoinType] = {"tokenSetAnd": "tokenSet", "custom": "class"}
"""The names of joins in the manual that the source does not know (section 17)."""


def _label(text: str) -> str:
    """A name within a process: any readable text of one line."""
    if not text or len(text) > 200 or not text.isprintable():
        raise ValueError("a name of 1 to 200 letters, signs and blanks")
    return text


def _group(text: str) -> str:
    """The first half of a full name."""
    if "." in _label(text):
        raise ValueError("a name without dots")
    return text


def _true_false(text: str) -> bool:
    """A switch, as XML Schema writes it."""
    if text not in ("true", "false", "1", "0"):
        raise ValueError("true or false")
    return text in ("true", "1")


def _join(text: str) -> JoinType:
    """The way in which tokens that come to a node become one."""
    joins: dict[str, JoinType] = {**{join: join for join in JOINS}, **ALIASES}
    if text not in joins:
        raise ValueError("a join", closest(text, joins))
    return joins[text]


def _number(text: str) -> float:
    """A coordinate of the editor."""
    if not re.fullmatch(r"[+-]?[0-9]{1,9}(\.[0-9]{1,9})?", text):
        raise ValueError("a number")
    return float(text)


def _mask(text: str) -> int:
    """The bits of events, named with blanks or commas between them."""
    names = re.split(r"[\s,]+", text)
    for name in names:
        if name not in EVENTS:
            raise ValueError("the names of events", closest(name, EVENTS))
    return mask_of(names)


_PLACE = {"x": Attribute(_number), "y": Attribute(_number)}

WORDS: Words = {
    **COMMON,
    "process-definition": Word(
        {"name": Attribute(_label, required=True), "group": Attribute(_group), "decay": Attribute(seconds)},
        ("custom", "description", "external", "listener", "node"),
    ),
    "node": Word(
        {
            "name": Attribute(_label, required=True),
            "type": Attribute(anything),
            "joinType": Attribute(_join),
            "joinParam": Attribute(anything),
            "isStart": Attribute(_true_false),
            **_PLACE,
        },
        ("arc", "cancel", "condition", "custom", "description", "guard", "join"),
    ),
    "arc": Word(
        {
            "from": Attribute(_label),
            "to": Attribute(_label, required=True),
            "name": Attribute(anything),
            "external": Attribute(anything),
            "back": Attribute(_true_false),
        }
    ),
    "cancel": Word({"node": Attribute(_label)}),
    "external": Word(
        {
            "name": Attribute(_label, required=True),
            "processDefinition": Attribute(_label, required=True),
            **_PLACE,
        },
        ("arc", "custom", "description", "process-definition"),
    ),
    "join": Word(),
    "guard": Word({"type": Attribute(one_of("rubric", "xpath")), "else": Attribute(anything)}),
    "condition": CONDITION,
    "custom": Word(children=None),
    "listener": Word({"name": Attribute(_label, required=True), "events": Attribute(_mask)}),
}
