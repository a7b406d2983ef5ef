"""The languages of narval as the pages show them, coloured by the words that their readers know."""

from typing import Any, ClassVar

from pygments.lexer import RegexLexer, words
from pygments.lexers.html import XsltLexer
from pygments.lexers.special import TextLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String, Text

from narval.kinds.dataflow.language.operators import NAMES
from narval.kinds.task.language.words import CLAUSES, OF_STATES, SINGLE

_COMMON = [
    (r"\s+", Text),
    (r"/\*(.|\n)*?\*/|//[^\n]*", Comment),
    (r'"(\\.|[^"\\])*"', String),
    (r"\d+(\.\d+)?", Number),
]
_REST = [(r"[A-Za-z_][\w.-]*", Name), (r".", Operator)]


class TaskLexer(RegexLexer):  # type: ignore[misc]
    """Task types."""

    name, aliases = "Task type", ["task"]
    flags = 2  # re.IGNORECASE
    tokens: ClassVar[dict[str, list[Any]]] = {
        "root": [
            *_COMMON,
            (words(("TASK TYPE", "GLOBAL EVENT", *CLAUSES, *OF_STATES, *SINGLE), suffix=r"\b"), Keyword),
            *_REST,
        ]
    }


class PlanLexer(RegexLexer):  # type: ignore[misc]
    """Dataflows."""

    name, aliases = "Dataflow", ["plan"]
    flags = 2
    tokens: ClassVar[dict[str, list[Any]]] = {
        "root": [
            *_COMMON,
            (words(("PLAN", "INPUT", "OUTPUT", "BODY", "OPERATOR"), suffix=r"\b"), Keyword),
            (words(tuple(NAMES), prefix=r"\b", suffix=r"(?=\s*\()"), Name.Function),
            *_REST,
        ]
    }


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx of the languages; those that have no colours are text."""
    app.add_lexer("task", TaskLexer)
    app.add_lexer("plan", PlanLexer)
    app.add_lexer("xsl", XsltLexer)
    for name in ("steps", "rubric", "joinlang", "mermaid"):
        app.add_lexer(name, TextLexer)
    return {"parallel_read_safe": True}
