"""Scripts as written (KA27): calls ended with `;`, choices, and blocks in braces.

statement = "if" "(" ( expr | "has" "(" path ")" ) ")" statement [ "else" statement ]
          | path "(" [ operand { "," operand } ] ")" ";"
          | "{" { statement } "}"
expr      = operand [ ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) operand ]
operand   = path | number | string
"""

from __future__ import annotations

import re

from narval.core.definitions.reading.lexer import NAME, NUMBER, STRING, Cursor
from narval.core.source.tokens import END, LostError, Token
from narval.kinds.task.language.definition import (
    Choice,
    Comparison,
    Operand,
    Perform,
    Script,
    ScriptPath,
    ScriptValue,
    Statement,
)
from narval.kinds.task.language.words import COMPARISONS, LEXICON, SINGLE, content, quoted

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")


def begins_statement(cursor: Cursor) -> bool:
    """True if a statement follows, judged by its first word."""
    return cursor.next.kind in ("IF", "{") or (cursor.next.kind == NAME and cursor.ahead().kind == "(")


def read_code(cursor: Cursor) -> Script:
    """The script at the cursor, as a string or in braces; () if there is neither."""
    if cursor.next.kind == STRING:
        return read_string(cursor, cursor.advance())
    return _body(cursor) if cursor.next.kind == "{" else ()


def read_string(cursor: Cursor, string: Token) -> Script:
    """The script within a string; its faults are reported at their places in the file."""
    text, place = content(string)
    inner = Cursor(text, LEXICON, lambda at: cursor.place(string._replace(at=place(at))))
    statements: list[Statement] = []
    try:
        while inner.next.kind != END:
            statements += read_statement(inner)
    except LostError:
        pass
    for fault in inner.faults:
        cursor.fault(fault.message, place(fault.at))
    return tuple(statements)


def read_statement(cursor: Cursor) -> Script:
    """A statement; a block gives all statements in it."""
    if cursor.next.kind not in ("IF", "{"):
        return (_perform(cursor),)
    with cursor.deeper():
        return (_choice(cursor),) if cursor.accept("IF") else _body(cursor)


def _body(cursor: Cursor) -> Script:
    """A statement, or a block, which adds no depth."""
    if not cursor.accept("{"):
        return read_statement(cursor)
    statements: list[Statement] = []
    while not cursor.accept("}"):
        if cursor.next.kind == END:
            raise cursor.lost("expected } at the end of this block, found the end")
        statements += read_statement(cursor)
    return tuple(statements)


def _choice(cursor: Cursor) -> Choice:
    cursor.expect("( after if", "(")
    if cursor.next.text == "has" and cursor.ahead().kind == "(":
        test = _asks_if_there(cursor)
        then = _body(cursor)
        return Choice(test, then, _body(cursor) if cursor.accept("ELSE") else ())
    left, operator, right = _operand(cursor), cursor.accept(*COMPARISONS), None
    if operator is not None:
        right = _operand(cursor)
    cursor.expect("a comparison such as == or >, or )" if operator is None else ")", ")")
    test = Comparison(left, operator.kind if operator else "", right)  # type: ignore[arg-type]
    then = _body(cursor)
    return Choice(test, then, _body(cursor) if cursor.accept("ELSE") else ())


def _asks_if_there(cursor: Cursor) -> Comparison:
    """The test `has(PATH)`, and the bracket after it."""
    cursor.advance()
    cursor.advance()
    path = cursor.expect("what may be there, such as obj.answer", NAME)
    cursor.expect(") after what may be there", ")")
    cursor.expect(") at the end of the test", ")")
    return Comparison(ScriptPath(tuple(path.text.split(".")), *cursor.place(path)), "has")


def _perform(cursor: Cursor) -> Perform:
    name = cursor.expect("a statement, such as route(NEXT);, or } at the end of a block", NAME)
    cursor.expect(f"( after {name.text:.60}", "(")
    arguments: list[Operand] = []
    while not cursor.accept(")"):
        if arguments:
            cursor.expect(", or )", ",")
        arguments.append(_operand(cursor))
    cursor.expect("; at the end of a statement", ";")
    return Perform(name.text, tuple(arguments), *cursor.place(name))


def _operand(cursor: Cursor) -> Operand:
    if (value := cursor.accept(NUMBER)) is not None:
        return ScriptValue(value.text)
    if (value := cursor.accept(STRING)) is not None:
        return ScriptValue(content(value)[0])
    path = cursor.expect("a name, a number or a string", NAME, *SINGLE - {"IF", "ELSE"})
    return ScriptPath(tuple(path.text.split(".")), *cursor.place(path))


# --- as text --------------------------------------------------------------------------------------------


def shown_script(script: Script, indent: str = "") -> str:
    """A script as text, one statement a line."""
    return "".join(f"{indent}{_shown(statement, indent)}\n" for statement in script)


def _shown(statement: Statement, indent: str) -> str:
    if isinstance(statement, Perform):
        return f"{statement.name}({', '.join(map(_shown_operand, statement.arguments))});"
    test = _shown_operand(statement.test.left)
    if statement.test.operator == "has":
        test = f"has({test})"
    if statement.test.right is not None:
        test += f" {statement.test.operator} {_shown_operand(statement.test.right)}"
    inner = f"{indent}  "
    text = f"if ({test}) {{\n{shown_script(statement.then, inner)}{indent}}}"
    if statement.otherwise:
        text += f" else {{\n{shown_script(statement.otherwise, inner)}{indent}}}"
    return text


def _shown_operand(operand: Operand) -> str:
    if isinstance(operand, ScriptValue):
        return operand.value if _NUMBER.fullmatch(operand.value) else quoted(operand.value)
    return ".".join(operand.names)
