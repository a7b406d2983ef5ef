"""Grammar of dataflow files: their units, and all faults at once (T1, T10–T12).

    unit       PLAN name { INPUT: [type] name, … ; OUTPUT: … ; BODY { call … } } | OPERATOR name { … }
    call       name ( argument, … : output, … ) WAIT: … ENABLE: … STARTED: … ON_ERROR: … ;
    argument   name | "text" | number | ( argument, … )

A path (`/a/b`, `../a`, `a/b`) is read where a plan is called. Keywords are in any case. Semicolons may be
left out, and so may the colon of a call that has no outputs.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from narval.core.definitions.reading.lexer import MOST_FAULTS, NAME, Cursor, Lexicon
from narval.core.errors import Fault
from narval.core.source.text import Source
from narval.core.source.tokens import END, LostError, Token
from narval.kinds.dataflow.language import syntax

_NAME = r"[^\W\d][\w-]*"
_PATTERN = re.compile(
    rf"""(?P<blank>\s+|//[^\r\n]*)
    |(?P<text>"(?:[^"\\]|\\.)*")
    |(?P<quote>".*)
    |(?P<path>(?:/|(?:\.\./)+){_NAME}(?:/{_NAME})*|{_NAME}(?:/{_NAME})+)
    |(?P<name>{_NAME})
    |(?P<number>-?[0-9]{{1,300}}(?:\.[0-9]{{1,300}})?(?![\w.]))
    |(?P<mark>[{{}}(),:;*])
    |(?P<junk>[^\s"/{{}}(),:;*\w]+|[\w.]+|.)""",
    re.VERBOSE | re.DOTALL,
)
_LEXICON = Lexicon(
    lambda name: None,
    _PATTERN,
    {
        "quote": 'this text has no end; write " after it',
        "junk": "expected a name, a text or a number, found {!r}",
    },
)
"""The tokens; keywords are names here, as the next token decides whether one is a keyword."""
_ESCAPES = {r"\n": "\n", r"\t": "\t"}
"""The escapes in texts that are not just the character after the backslash."""
_CLAUSE_WORDS = {"WAIT": "wait", "ENABLE": "enable", "STARTED": "started", "ON_ERROR": "on_error"}
PROPERTIES = {
    "BLOCKING": "blocking",
    "RE-ENTRANT": "reentrant",
    "PARALLELIZABLE": "parallelizable",
    "IO-BOUND": "io",
    "CONDITIONAL": "conditional",
    "GRANULARITY": "granularity",
}
"""The properties of an operator as written in a declaration, and their names in the table."""


def read_units(source: Source) -> tuple[list[syntax.Unit], list[Fault]]:
    """Read the plans and operator declarations of a file, as far as possible, and all its faults."""
    tokens = _Tokens(source)
    units = _UnitReader(tokens).units()
    return units, [source.fault(message, *source.place(at)) for at, message in tokens.faults]


class _Tokens(Cursor):
    """The tokens of a file, read one after another, and the faults found so far."""

    def __init__(self, source: Source) -> None:
        super().__init__(source.text, _LEXICON, source.place)
        self.source = source

    def is_word(self, *words: str, before: str = "") -> bool:
        """True if the next token is one of these keywords, followed by `before` if given."""
        is_one = self.next.kind == NAME and self.next.text.upper() in words
        return is_one and (not before or self.ahead().kind == before)

    def begins_line(self) -> bool:
        """True if the next token is the first on its line."""
        return "\n" in self.source.text[self.last.end : self.next.at]


class _DeclarationReader:
    """Reads the declarations of inputs and outputs, and of operators."""

    def __init__(self, tokens: _Tokens) -> None:
        self._tokens = tokens

    def operator(self) -> syntax.OperatorSyntax:
        """The declaration of an operator."""
        tokens = self._tokens
        start = tokens.advance()
        name = tokens.expect("the name of the operator", "name")
        tokens.expect("{ after the name of an operator", "{")
        inputs = self.declared("INPUT", ports=True)
        outputs = self.declared("OUTPUT", ports=True)
        properties: list[tuple[str, str]] = []
        while tokens.next.kind not in ("}", END):
            properties.append(self._property([earlier for earlier, _ in properties]))
        end = tokens.expect("} at the end of the operator", "}")
        text = tokens.source.text[start.at : end.at + 1]
        line, column = tokens.place(name)
        return syntax.OperatorSyntax(name.text, line, column, inputs, outputs, tuple(properties), text)

    def _property(self, names: list[str]) -> tuple[str, str]:
        tokens = self._tokens
        if not tokens.is_word(*PROPERTIES, before=":"):
            raise tokens.unexpected(f"a property ({', '.join(PROPERTIES)})")
        word = tokens.advance()
        tokens.advance()
        name = PROPERTIES[word.text.upper()]
        read = tokens.expect(f"the value of {word.text}", "name", "number")
        value = read.text.lower()
        expectation, fits = _FITS["granularity" if name == "granularity" else ""]
        if not fits(value):
            tokens.fault(f"{word.text}: expected {expectation}, found {read.text!r:.40}", read.at)
        if name in names:
            tokens.fault(f"expected {word.text} once", word.at)
        tokens.accept(";")
        return name, value

    def declared(self, word: str, *, ports: bool) -> tuple[syntax.Declared, ...]:
        """The declarations after INPUT: or OUTPUT:, or () without it."""
        tokens = self._tokens
        if not tokens.is_word(word):
            return ()
        tokens.advance()
        tokens.expect(f": after {word}", ":")
        ports_read: list[syntax.Declared] = []
        while tokens.next.kind == "name" and not self._ends_declarations():
            ports_read.append(self._port(ports=ports))
            if not tokens.accept(","):
                break
        tokens.accept(";")
        return tuple(ports_read)

    def _ends_declarations(self) -> bool:
        return self._tokens.is_word("INPUT", "OUTPUT", *PROPERTIES, before=":") or self._tokens.is_word(
            "BODY", before="{"
        )

    def _port(self, *, ports: bool) -> syntax.Declared:
        tokens = self._tokens
        first = tokens.advance()
        type = ""
        if tokens.next.kind == "name" and not self._ends_declarations():
            type, first = first.text, tokens.advance()
        elif ports:
            tokens.fault(f"expected a type before {first.text!r}, as in: String {first.text}", first.at)
        many = ports and tokens.accept("*") is not None
        return syntax.Declared(first.text, type, *tokens.place(first), many)


class _UnitReader:
    """Reads plans and operator declarations."""

    def __init__(self, tokens: _Tokens) -> None:
        self._tokens = tokens
        self._declarations = _DeclarationReader(tokens)
        self.faults = tokens.faults

    def units(self) -> list[syntax.Unit]:
        """All units of the file."""
        units: list[syntax.Unit] = []
        tokens = self._tokens
        while tokens.next.kind != END and len(self.faults) < MOST_FAULTS:
            try:
                if tokens.is_word("PLAN"):
                    units.append(self._plan())
                elif tokens.is_word("OPERATOR"):
                    units.append(self._declarations.operator())
                else:
                    raise tokens.unexpected("PLAN or OPERATOR")
            except LostError:
                tokens.advance()
                while tokens.next.kind != END and not self._is_unit():
                    tokens.advance()
        return units

    def _is_unit(self) -> bool:
        """True where a unit begins: `PLAN name {`."""
        named = self._tokens.is_word("PLAN", "OPERATOR", before="name")
        return named and self._tokens.ahead(2).kind == "{"

    # --- plans --------------------------------------------------------------------------------------------

    def _plan(self) -> syntax.PlanSyntax:
        tokens = self._tokens
        start = tokens.advance()
        name = tokens.expect("the name of the dataflow", "name")
        tokens.expect("{ after the name of a dataflow", "{")
        inputs = self._declarations.declared("INPUT", ports=False)
        outputs = self._declarations.declared("OUTPUT", ports=False)
        if not tokens.is_word("BODY"):
            raise tokens.unexpected(self._wanted())
        tokens.advance()
        tokens.expect("{ after BODY", "{")
        before = len(self.faults)
        statements = self._statements()
        partial = len(self.faults) > before
        tokens.expect("} at the end of BODY", "}")
        end = tokens.expect("} at the end of the dataflow", "}")
        text = tokens.source.text[start.at : end.at + 1]
        line, column = tokens.place(name)
        return syntax.PlanSyntax(name.text, line, column, inputs, outputs, statements, text, partial)

    def _wanted(self) -> str:
        return "INPUT:, OUTPUT: or BODY, in this order" if self._tokens.next.kind == "name" else "BODY"

    # --- calls --------------------------------------------------------------------------------------------

    def _statements(self) -> tuple[syntax.Statement, ...]:
        tokens = self._tokens
        statements: list[syntax.Statement] = []
        while tokens.next.kind not in ("}", END) and len(self.faults) < MOST_FAULTS:
            if self._is_unit():
                break
            try:
                statements.append(self._statement())
            except LostError:
                self._skip()
        return tuple(statements)

    def _skip(self) -> None:
        """Skip to where the next call may begin."""
        tokens = self._tokens
        while tokens.next.kind not in ("}", END):
            if tokens.accept(";"):
                return
            tokens.advance()
            is_call = tokens.next.kind in ("name", "path") and tokens.ahead().kind == "("
            if is_call and tokens.begins_line():
                return

    def _statement(self) -> syntax.Statement:
        tokens = self._tokens
        name = tokens.expect("an operator or a dataflow to be called", "name", "path")
        if tokens.next.kind == ":":
            clause_words = ", ".join(_CLAUSE_WORDS)
            raise tokens.lost(f"expected a clause ({clause_words}), or ( after a call, found '{name.text}:'")
        tokens.expect(f"( after {name.text}", "(")
        arguments = self._list(0, outputs=False)
        outputs = self._list(0, outputs=True) if tokens.accept(":") else ()
        if tokens.next.kind != ")":
            expectation = "a comma, or )" if outputs else "a comma, : before the outputs, or )"
            raise tokens.unexpected(expectation)
        tokens.advance()
        clauses = self._clauses()
        tokens.accept(";")
        return syntax.Statement(name.text, *tokens.place(name), arguments, outputs, clauses)

    def _list(self, depth: int, *, outputs: bool) -> tuple[syntax.Written, ...]:
        tokens = self._tokens
        values: list[syntax.Written] = []
        while tokens.next.kind not in (")", ":", END):
            values.append(self._written(depth, outputs=outputs))
            if not tokens.accept(","):
                break
        return tuple(values)

    def _written(self, depth: int, *, outputs: bool) -> syntax.Written:
        tokens = self._tokens
        if outputs and tokens.next.kind not in ("name", "("):
            raise tokens.unexpected("the name of an output, or _")
        read = tokens.expect("the name of a datum, a text or a number", "name", "text", "number", "(")
        place = tokens.place(read)
        if read.kind == "(":
            if depth:
                raise tokens.lost("expected no group within a group; write its names one after another")
            group = self._list(1, outputs=outputs)
            tokens.expect("a comma, or ) at the end of the group", ")")
            return syntax.Written("group", "", *place, group)
        if read.kind == "text":
            return self._text(read)
        return syntax.Written("number" if read.kind == "number" else "name", read.text, *place)

    def _text(self, read: Token) -> syntax.Written:
        """A text without its quotes and escapes, with the places where lines begin and escapes end."""
        inner = read.text[1:-1]
        source = self._tokens.source
        text, offsets, last = "", [(0, read.at + 1)], 0
        for match in re.finditer(r"\\.|\n", inner, re.DOTALL):
            text += inner[last : match.start()] + _ESCAPES.get(match[0], match[0][-1])
            last = match.end()
            offsets.append((len(text), read.at + 1 + last))
        places = tuple((at, *source.place(offset)) for at, offset in offsets)
        return syntax.Written("text", text + inner[last:], *source.place(read.at), (), places)

    def _clauses(self) -> syntax.Clauses:
        tokens = self._tokens
        clauses: dict[str, tuple[syntax.Written, ...]] = {}
        while tokens.is_word(*_CLAUSE_WORDS, before=":"):
            word = tokens.advance()
            tokens.advance()
            names = [self._name(word.text)]
            while tokens.accept(","):
                names.append(self._name(word.text))
            clause = _CLAUSE_WORDS[word.text.upper()]
            clauses[clause] = (*clauses.get(clause, ()), *names)
        return syntax.Clauses(**clauses)

    def _name(self, word: str) -> syntax.Written:
        read = self._tokens.expect(f"the name of a datum after {word}:", "name")
        return syntax.Written("name", read.text, *self._tokens.place(read))


_FITS: dict[str, tuple[str, Callable[[str], bool]]] = {
    "": ("yes or no", lambda value: value in ("yes", "no", "true", "false")),
    "granularity": (
        "any, or a number from 1",
        lambda value: value == "any" or re.fullmatch(r"0*[1-9]\d{0,8}", value) is not None,
    ),
}
