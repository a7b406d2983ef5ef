"""The pieces of sentences about a run: texts, elements by their titles, runs and moments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from narval.agent.agent import AgentState
from narval.ask.element_titles import title
from narval.ask.json_forms import moment
from narval.ask.registry import Form
from narval.ask.text import person, shortened
from narval.core.definitions.reading.durations import duration
from narval.core.engines.story import filled
from narval.core.source.secrets import without_secrets

Said = list[Any]
"""A sentence: texts, and between them `{"element"}`, `{"run"}` or `{"moment"}`, each with its title."""

NAMED = 12
"""The most elements that one sentence names."""
LONGEST = 200
"""The most characters of a text in a sentence."""


class Sentences:
    """The sentences about the runs of an agent."""

    def __init__(self, agent: AgentState) -> None:
        self._agent = agent

    def in_words(self, words: str, line: Form, watches: Mapping[str, Form]) -> Said:
        """The words of a fact, filled from its line, without optional words whose fields it lacks."""
        return filled(words, partial(self._valued, line, watches))

    def _valued(self, line: Form, watches: Mapping[str, Form], field: str, form: str) -> Said:
        value = line.get(field)
        if value is None or value == "" or (form and not value):
            return []
        match form:
            case "element":
                return self.named(value if isinstance(value, list | tuple) else [value])
            case "run":
                return [run_piece(value)]
            case "moment":
                return [{"moment": moment(value)}]
            case "person":
                return [person(line)]
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


def run_piece(eid: int) -> Form:
    """A run in a sentence."""
    return {"run": eid, "title": f"run {eid}"}


def problem_text(problem: Form) -> str:
    """A problem in a sentence, without secrets."""
    return shortened(f"{problem['kind']}: {without_secrets(problem['message'])}", LONGEST)


def length_of(seconds: float) -> str:
    """A duration in a sentence."""
    return duration(seconds) if seconds >= 0.001 else "less than 1 ms"


def _conditions(watch: Form | None) -> str:
    """The patterns that a watch is for."""
    texts = [text for bound in (watch or {}).get("conditions", ()) for text in bound["texts"]]
    return shortened(" and ".join(texts) or "its conditions", LONGEST)
