"""The pieces of sentences about a run: texts, elements by their titles, runs and moments."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from narval.agent.agent import AgentState
from narval.ask.element_titles import title
from narval.ask.json_forms import moment
from narval.ask.text import shortened
from narval.core.definitions.reading.durations import duration
from narval.core.source.secrets import without_secrets

Row = dict[str, Any]
Said = list[Any]
"""A sentence: texts, and between them `{"element"}`, `{"run"}` or `{"moment"}`, each with its title."""

NAMED = 12
"""The most elements that one sentence names."""
LONGEST = 200
"""The most characters of a text in a sentence."""

FIELDS = re.compile(r"([^{]+)|\{(\w+)(?::(\w+))?\}")
"""The pattern of a text in the words of a fact, or of a field with its form."""
_SEGMENTS = re.compile(r"(\[[^\]]*\])|([^\[]+)")


class Sentences:
    """The sentences about the runs of an agent."""

    def __init__(self, agent: AgentState) -> None:
        self._agent = agent

    def in_words(self, words: str, line: Row, watches: dict[str, Row]) -> Said:
        """The words of a fact, filled from its line, without optional words whose fields it lacks."""
        said: Said = []
        for optional, fixed in _SEGMENTS.findall(words):
            segment = optional[1:-1] if optional else fixed
            pieces, is_whole = self._filled(segment, line, watches)
            if is_whole or not optional:
                said += pieces
        return said

    def _filled(self, segment: str, line: Row, watches: dict[str, Row]) -> tuple[Said, bool]:
        pieces: Said = []
        is_whole = True
        for text, field, form in FIELDS.findall(segment):
            if text:
                pieces.append(text)
                continue
            value = self._valued(line.get(field), form, watches)
            is_whole = is_whole and bool(value)
            pieces += value
        return pieces, is_whole

    def _valued(self, value: Any, form: str, watches: dict[str, Row]) -> Said:
        if value is None or value == "" or (form and not value):
            return []
        match form:
            case "element":
                return self.named(value if isinstance(value, list | tuple) else [value])
            case "run":
                return [run_piece(value)]
            case "moment":
                return [{"moment": moment(value)}]
            case "brief":
                return [str(value)[:12]]
            case "watch":
                return [_conditions(watches.get(value))]
        if isinstance(value, dict):
            return [problem_text(value) if "message" in value else ", ".join(map(str, value))]
        if isinstance(value, list | tuple):
            texts = [str(one) for one in value if one != ""]
            return [shortened(", ".join(texts), LONGEST)] if texts else []
        return [shortened(value, LONGEST)]

    def named(self, eids: Iterable[int]) -> Said:
        """Elements by their titles, the first `NAMED`."""
        listed = list(dict.fromkeys(eids))
        said: Said = []
        for eid in listed[:NAMED]:
            said += [", ", {"element": eid, "title": title(self._agent, eid)}]
        more = len(listed) - NAMED
        return said[1:] + ([f" and {more} more"] if more > 0 else [])


def text_of(said: Said) -> str:
    """A sentence as text: elements with their names and numbers, moments as operations write them."""
    return "".join(map(_text_of, said))


def _text_of(piece: str | Row) -> str:
    if isinstance(piece, str):
        return piece
    if "element" not in piece:
        return str(piece.get("moment") or piece["title"])
    name, _, about = piece["title"].partition(" · ")
    return f"{name or 'element'} {piece['element']}" + (f" · {about}" if about else "")


def run_piece(eid: int) -> Row:
    """A run in a sentence."""
    return {"run": eid, "title": f"run {eid}"}


def problem_text(problem: Row) -> str:
    """A problem in a sentence, without secrets."""
    return shortened(f"{problem['kind']}: {without_secrets(problem['message'])}", LONGEST)


def length_of(seconds: float) -> str:
    """A duration in a sentence."""
    return duration(seconds) if seconds >= 0.001 else "less than 1 ms"


def _conditions(watch: Row | None) -> str:
    """The patterns that a watch is for."""
    texts = [text for bound in (watch or {}).get("conditions", ()) for text in bound["texts"]]
    return shortened(" and ".join(texts) or "its conditions", LONGEST)
