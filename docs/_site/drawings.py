"""State diagrams: blocks of Mermaid, as GitHub draws them, are drawn by Graphviz when the site is made.

So the pages need no script of strangers, and the drawings take the colours of the page, by day and by night.
Where there is no `dot` the block stays what it is as text.
"""

import re
import shutil
import subprocess
from typing import Any

from docutils import nodes

MOVE = re.compile(r"^\s*(\S+) --> (\S+?)(?:: (.*))?$", re.MULTILINE)
ENDS = "[*]"
"""Mermaid's name of the beginning and of the end."""

WIDTH = 26
"""The letters of a line of a label, about."""


def dot_of(diagram: str) -> str:
    """A state diagram of Mermaid in the language of Graphviz."""
    lines = [
        "digraph { rankdir=TB; bgcolor=transparent; nodesep=0.35; ranksep=0.4;",
        'node [shape=box style=rounded fontname="sans-serif" fontsize=12 height=0.35 margin="0.16,0.06"];',
        'edge [fontname="sans-serif" fontsize=10 arrowsize=0.6];',
    ]
    for start, end, label in MOVE.findall(diagram):
        first, last = (_named(start, "start", lines), _named(end, "end", lines))
        told = f" [label={_quoted(_wrapped(label))}]" if label else ""
        lines.append(f"{first} -> {last}{told};")
    return "\n".join([*lines, "}"])


def _named(state: str, end: str, lines: list[str]) -> str:
    if state != ENDS:
        return _quoted(state)
    lines.append(f'"[{end}]" [shape=circle style=filled label="" width=0.14 height=0.14 fixedsize=true];')
    return f'"[{end}]"'


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'


def _wrapped(label: str) -> str:
    lines = [""]
    for word in label.split():
        if len(lines[-1]) + len(word) > WIDTH:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\\n".join(lines)


def svg_of(diagram: str, dot: str) -> str:
    """The drawing of a diagram, without colours of its own."""
    done = subprocess.run([dot, "-Tsvg"], input=dot_of(diagram), capture_output=True, text=True, check=True)
    svg = done.stdout[done.stdout.index("<svg") :]
    svg = re.sub(r"<!--.*?-->|<title>.*?</title>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<text ([^>]*?)font-family="[^"]*"', r"<text \1", svg)
    svg = svg.replace('fill="black"', 'fill="currentColor"').replace(
        'stroke="black"', 'stroke="currentColor"'
    )
    told = "; ".join(f"{start} to {end}" for start, end, _ in MOVE.findall(diagram)).replace(ENDS, "the end")
    return svg.replace("<svg ", f'<svg role="img" aria-label="States: {told}" ', 1)


def draw(app: Any, tree: nodes.document) -> None:
    """Put drawings in place of the diagrams of a page."""
    dot = shutil.which("dot")
    if dot is None or app.builder.format != "html":
        return
    for block in list(tree.findall(nodes.literal_block)):
        if block.get("language") == "mermaid":
            svg = svg_of(block.astext(), dot)
            block.replace_self(nodes.raw("", f'<figure class="states">{svg}</figure>', format="html"))


def setup(app: Any) -> dict[str, bool]:
    """Hear when a page has been read."""
    app.connect("doctree-read", draw)
    return {"parallel_read_safe": True}
