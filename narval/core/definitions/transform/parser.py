"""The stylesheets of transforms: XSLT with a `prototype` child of its root (§2.1.4, table 2.18, N21, N32)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from lxml import etree

from narval.core.definitions.action.parts import check_parts, misplaced
from narval.core.definitions.library import Parsed
from narval.core.definitions.prototype import EMPTY
from narval.core.definitions.reading import vocabulary
from narval.core.definitions.reading.patterns import Patterns
from narval.core.definitions.reading.vocabulary import COMMON, Attribute, Word, Words
from narval.core.definitions.reading.xml import Entry, Reading
from narval.core.definitions.transform.definition import Transform
from narval.core.elements.canonical import canonical, careful_parser
from narval.core.elements.element import children, local_name
from narval.core.kinds import XSLT
from narval.core.source.text import Source
from narval.core.source.xml import XmlNode
from narval.core.trust.paths import keeps_in

STYLESHEET_WORDS: Words = {
    **COMMON,
    "prototype": Word(
        {
            "group": Attribute(vocabulary.name),
            "name": Attribute(vocabulary.name),
            "keeps": Attribute(keeps_in),
        },
        ("description", "input", "output"),
    ),
}


def parse(source: Source, root: XmlNode) -> Parsed:
    """The transform in a stylesheet."""
    return Reading(source, STYLESHEET_WORDS).parsed(_transforms, root)


def _transforms(reading: Reading, root: XmlNode) -> Iterator[Transform]:
    entry = _prototype(reading, root)
    patterns = Patterns(reading)
    prototype = EMPTY if entry is None else patterns.prototype(entry)
    patterns.check_variables({"plan"}, "$plan, as a transform knows no step")
    if entry is not None:
        check_parts(reading, entry, misplaced(prototype, (), pure=True))
    group, name = _names(reading, root, entry)
    tree = _tree(reading, root)
    if tree is None or group is None or name is None:
        return
    xml = canonical(tree)
    _compile(reading, tree)
    reading.names.add((Transform.kind, f"{group}.{name}"))
    yield Transform(
        group=group,
        name=name,
        prototype=prototype,
        descriptions={} if entry is None else reading.descriptions(entry),
        digest=hashlib.sha256(xml).hexdigest(),
        xml=xml,
        path=reading.source.path,
        line=root.line,
        warnings=reading.warnings_so_far(),
    )


def _prototype(reading: Reading, root: XmlNode) -> Entry | None:
    nodes = [child for child in root.children if local_name(child.tag) == "prototype"]
    if not nodes:
        reading.fault(root, "the stylesheet needs a prototype child that says what it takes and gives")
    for extra in nodes[1:]:
        reading.fault(extra, f"expected one prototype, found another on line {nodes[0].line}")
    return reading.entry(nodes[0], "prototype") if nodes else None


def _names(reading: Reading, root: XmlNode, entry: Entry | None) -> tuple[str | None, str | None]:
    """The group and name: from the prototype, or else from the file name `group.name.xsl`."""
    stem_group, _, stem_name = PurePath(reading.source.path).stem.partition(".")
    group = (entry.get("group") if entry is not None else None) or stem_group
    name = (entry.get("name") if entry is not None else None) or stem_name
    if not name:
        reading.fault(
            root, 'a transform needs a name: add name="…" to its prototype, or call the file group.name.xsl'
        )
    for word in (group, name):
        try:
            vocabulary.name(word or "name")
        except ValueError as error:
            reading.fault(
                root, f"the file's name gives {word!r}, expected {error.args[0]}; give the prototype a name"
            )
            return None, None
    return group, name or None


class _NoFiles(etree.Resolver):
    """A resolver that answers each `xsl:include` with nothing; the run reads what it may."""

    def resolve(self, system_url: str | None, public_id: str | None, context: Any) -> Any:
        return self.resolve_string(f'<xsl:stylesheet version="1.0" xmlns:xsl="{XSLT}"/>', context)


def _tree(reading: Reading, root: XmlNode) -> etree._Element | None:
    parser = careful_parser()
    parser.resolvers.add(_NoFiles())
    try:
        return etree.fromstring(reading.source.xml_text.encode(), parser)
    except etree.XMLSyntaxError as error:
        reading.fault(root, f"not well-formed XML: {error.msg}")
        return None


def _compile(reading: Reading, tree: etree._Element) -> None:
    for child in children(tree):
        if local_name(child.tag) == "prototype":  # XSLT does not accept one without a namespace
            tree.remove(child)
    try:
        etree.XSLT(tree, access_control=etree.XSLTAccessControl.DENY_ALL)
    except etree.XSLTError as error:
        complaints = _complaints(error) or {tree.sourceline or 1: [str(error)]}
        for line, messages in complaints.items():
            place = _line_place(reading.source, line)
            reading.fault_at(place, f"not an XSLT stylesheet: {'; '.join(messages)}")


def _complaints(error: etree.XSLTError) -> dict[int, list[str]]:
    """The messages of libxslt by line: the details of an expression, the line, its fault."""
    complaints: dict[int, list[str]] = {}
    details: list[str] = []
    line, of_expression = 1, False
    for entry in error.error_log:
        message = entry.message.strip()
        if message.startswith("compilation error"):
            line = entry.line
            complaints.setdefault(line, []).extend(details)
            details = []
        elif of_expression or entry.domain_name == "XPATH":
            details.append(message)
        elif message not in ("", "error"):
            complaints.setdefault(line, []).append(message)
        of_expression = message == "error"
    if details:
        complaints.setdefault(line, []).extend(details)
    return {line: list(dict.fromkeys(messages)) for line, messages in complaints.items() if messages}


def _line_place(source: Source, line: int) -> tuple[int, int]:
    """The first non-blank character of a line: libxslt reports no columns."""
    lines = re.split(r"\r\n|\r|\n", source.xml_text)
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    return max(line, 1), len(text) - len(text.lstrip()) + 1
