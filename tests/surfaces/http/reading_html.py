"""Pages read as a browser reads them: their elements, attributes and texts, and which of them are ours."""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser
from importlib.resources import files
from typing import NamedTuple

from narval.surfaces.http.rendering import visible

_TAG = re.compile(r"<([a-z][a-z0-9]*)((?:[^<>{}]|\{\{.*?\}\}|\{%.*?%\})*)>", re.S)
_ATTRIBUTE = re.compile(r"(?<![\w-])([a-zA-Z][\w-]*)(?==|(?=\s|$))")
_LINKS = ("href", "src", "data-live", "data-replay")
_TYPED = ("value", "name", "data-part", "data-arc", "data-from", "data-to")


class ReadHtml(NamedTuple):
    """A page: elements with the names of their attributes, addresses, texts, and what is not ours."""

    elements: set[tuple[str, str]]
    links: list[str]
    texts: list[str]
    strange: list[str]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found = ReadHtml(set(), [], [], [])
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open.append(tag)
        self.found.elements.add((tag, ""))
        for name, value in attrs:
            self.found.elements.add((tag, name))
            if name in _LINKS:
                self.found.links.append(value or "")
            if name not in _TYPED:
                self.found.texts.append(value or "")
        source = dict(attrs).get("src") or ""
        if tag == "script" and not re.fullmatch(r"/static/[0-9a-f]{16}/[a-z]+\.js", source):
            self.found.strange.append(f"a script: {attrs!r:.200}")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "script" in self._open:
            self.found.strange.append(f"a script: {data!r:.200}")
        if "textarea" not in self._open:
            self.found.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.found.strange.append(f"a comment: {data!r:.80}")

    def handle_pi(self, data: str) -> None:
        self.found.strange.append(f"an instruction: {data!r:.80}")


@cache
def our_elements() -> frozenset[tuple[str, str]]:
    """The elements and attributes that stand in templates."""
    found = set()
    for file in files("narval.surfaces.web").joinpath("templates").iterdir():
        for tag, rest in _TAG.findall(file.read_text()):
            plain = re.sub(r"\{\{.*?\}\}|\{%.*?%\}", " ", rest, flags=re.S)
            plain = re.sub(r'"[^"]*"', '"" ', plain)
            found |= {(tag, ""), *((tag, name.lower()) for name in _ATTRIBUTE.findall(plain))}
    return frozenset(found)


def read(page: str) -> ReadHtml:
    """A page as a browser reads it."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    strange = reader.found.elements - our_elements()
    reader.found.strange.extend(f"{tag} {name}" for tag, name in sorted(strange))
    for text in reader.found.texts:
        if visible(text) != text:
            reader.found.strange.append(f"hides or turns: {text!r:.200}")
    return reader.found
