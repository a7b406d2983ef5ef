"""Countdowns as written: `launch from 3 call m.tick`, one a line."""

from __future__ import annotations

import re
from pathlib import PurePath

from lxml import etree

from narval.core.definitions.library import Definition, Parsed, Reference, RunDefinition
from narval.core.source.text import Source
from narval.core.source.xml import XmlNode

LINE = re.compile(r"(\w+) from (\d+) call ([\w.]+)")


NOTHING = "nothing"
"""The name of an action that is not called: the countdown hears signals, and goes on by them alone."""


class Countdown(RunDefinition, frozen=True, eq=False, kw_only=True):
    """A countdown: the action to call, and how often."""

    count: int
    action: str


def parse(source: Source, root: XmlNode | None) -> Parsed:
    """The countdowns of a file, and all its faults."""
    group, found, faults, references = PurePath(source.path).stem, [], [], []
    for number, text in enumerate(source.text.splitlines(), 1):
        match = LINE.fullmatch(text)
        if match is None:
            faults.append(source.fault(f"expected NAME from COUNT call ACTION, found {text!r}", number, 1))
            continue
        name, count, action = match.groups()
        element = etree.Element("countdown", name=f"{group}.{name}")
        element.text = text
        xml = etree.tostring(element, encoding="utf-8")
        reference = Reference("action", action, "the countdown", source.path, number, match.start(3) + 1)
        if action != NOTHING:
            references.append(reference)
        countdown = Countdown(
            group=group,
            name=name,
            count=int(count),
            action=action,
            xml=xml,
            digest=Source(source.path, xml).digest,
            path=source.path,
            line=number,
            references=(reference,) if action != NOTHING else (),
        )
        found.append(countdown)
    definitions: tuple[Definition, ...] = tuple(found)
    names = frozenset((each.kind, each.full_name) for each in found)
    return Parsed(definitions, tuple(references), tuple(faults), names)
