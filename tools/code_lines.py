"""Count lines of code: `python tools/code_lines.py [FOLDER …]`, of `narval/` unless folders are named.

A line counts if a token of it is neither a comment nor part of a docstring (or of a text below a field).
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

_NOTHING = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
)


def code_lines(text: str) -> int:
    """The number of lines of code in a text of Python."""
    described: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            described.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NOTHING:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - described)


def main(folders: list[str]) -> None:
    """Print the lines and modules of each room, and of all."""
    lines: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for folder in folders:
        for path in sorted(Path(folder).rglob("*.py")):
            parts = path.relative_to(folder).parts
            room = "/".join((folder, *parts[:-1][:2])) if parts[0] == "kinds" else f"{folder}/{parts[0]}"
            lines[room] += code_lines(path.read_text("utf-8"))
            files[room] += 1
    for room in sorted(lines):
        print(f"{room:<40} {lines[room]:>7,} lines {files[room]:>5} modules")
    print(f"{'all':<40} {lines.total():>7,} lines {files.total():>5} modules")


if __name__ == "__main__":
    main(sys.argv[1:] or ["narval"])
