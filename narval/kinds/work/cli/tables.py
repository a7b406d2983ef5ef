"""Tables of work: the items that people are asked, and the log of what they did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from narval.ask.text import Row, moment, shortened
from narval.surfaces.cli.render.tables import Column, of, plain


def _who(row: Row) -> str:
    claimed, right = row["claimed"], row["right"]
    if claimed:
        return f"{claimed['by']} has it"
    return f"for {right['for']}, who is away" if right and right["for"] else f"for {row['for']}"


def _outcome(row: Row) -> str:
    if row["outcome"]:
        return f": {row['outcome']}"
    return f", answered {vote(row['answered'])}" if row["answered"] else ""


def vote(answered: Row) -> str:
    """The answer of one person, while it waits for those of others."""
    return f"{answered['outcome']} ({answered['has']} of {answered['needs']})"


ITEMS = (
    Column("item", of("item"), right=True),
    Column("work", of("work")),
    Column("state", lambda row: ", ".join(filter(None, (f"{row['state']}{_outcome(row)}", row["urged"])))),
    Column("who", _who, most=60),
    Column("deadline", lambda row: moment(row["deadline"]), is_moment=True),
    Column("title", of("title"), most=200),
)
LOG = (
    Column("at", lambda row: moment(row["at"]), is_moment=True),
    Column("item", of("item"), right=True),
    Column("by", lambda row: f"{row['by']} ({row['actor']})" if row.get("actor") else row["by"] or ""),
    *plain("way"),
    Column("right", lambda row: ", ".join(filter(None, (row.get("role"), _for(row))))),
    Column("what", lambda row: shortened(said(row), 200), most=200),
)


def _for(row: Row) -> str:
    return f"for {row['for']}" if row.get("for") else ""


def said(row: Row) -> str:
    """An act in a sentence, with the fields of an answer."""
    from narval.core.engines.story import filled  # here: `narval run` lists items, and needs no sentences
    from narval.kinds.work.engine.explain import story

    def valued(name: str, form: str) -> list[str]:
        value = row.get(name)
        return [moment(value) if form == "moment" else _plain(value)] if value else []

    words = story[row["did"]].words if row["did"] in story else row["did"]
    sentence = "".join(filled(words, valued))
    return f"{sentence.removesuffix('.')} ({_plain(row['fields'])})." if row.get("fields") else sentence


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{name}={_plain(part)}" for name, part in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
