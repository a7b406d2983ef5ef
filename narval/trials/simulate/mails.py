"""Mails of a folder in a simulation: reading them in place, and the outcome for each.

A folder acts as a mailbox whose mails have just arrived: a Maildir, an mbox file, or a folder of `.eml`
files. The action `mail.read` of the home, or the shipped one, reads them; files that it stores for them are
gone when the program ends.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from lxml import etree

from narval.ask.text import root_attributes
from narval.calls.context import CallContext, Target
from narval.calls.conversion import answer_at_once
from narval.core.elements.element import Element
from narval.core.elements.own_elements import read_error
from narval.core.engines.events import OutputElement
from narval.core.errors import RequestError
from narval.files.shipped import shipped_modules
from narval.trials.simulate.report import RAN, SimulationReport
from narval.trials.simulate.scenario import Scenario, ScheduledElement, When
from narval.trials.simulate.simulated_home import SimulatedHome

TRIAGE = "mail.triage"
"""The definition that is simulated by default."""
MAIL, VERDICT, DRAFT = "email", "triage", "draft"
"""The elements for a mail, a verdict on one, and one to be written."""
TOGETHER = 50
"""The mails that arrive in one second: each may start a run, and very many at one moment count as an endless
start.
"""
_READ, _MODULE = "mail.read", "mail"


class Mails(msgspec.Struct, frozen=True):
    """The mails of a folder as elements; `unread` are messages about unreadable ones."""

    folder: str
    elements: tuple[bytes, ...]
    unread: tuple[str, ...] = ()


def mails_of(home: SimulatedHome, path: Path, progress: Callable[[int], None]) -> Mails:
    """Read the mails of a folder or of an mbox; `progress` is called with the number read so far.

    A duplicate mail counts once. Raises RequestError if there are none.
    """
    functions = home.loaded.functions
    if _READ not in functions:
        functions = shipped_modules().load([_MODULE]).modules[_MODULE].functions
    target = Target(action=_READ, where="inline", function=functions[_READ])
    with _mailbox(path.resolve()) as (attributes, links):
        mailbox = Element(0, etree.tostring(etree.Element("mailbox", attributes, name=path.resolve().name)))
        call = CallContext(_READ, 0, "", target=target, inputs={"mailbox": mailbox})
        call.attach(lambda call: progress(int(call.progressed[0] if call.progressed else 0)))
        outcome = answer_at_once(call)
    if outcome.problem is not None:
        raise RequestError(f"{path} cannot be read as mails: {outcome.problem.message}")
    elements = list(_once(outcome.elements))
    unread = (read_error(element)[1] for element in elements if element.name != MAIL)
    if not elements:
        raise RequestError(f"there are no mails in {path}")
    mails = tuple(element.xml for element in elements if element.name == MAIL)
    return Mails(str(path), mails, tuple(_by_file(message, links) for message in unread))


@contextmanager
def _mailbox(path: Path) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """The attributes of a mailbox that reads it, and the files that are read through links, by link.

    Raises RequestError.
    """
    if path.is_file():
        yield {"kind": "mbox", "path": str(path)}, {}
        return
    if any((path / part).is_dir() for part in ("new", "cur")):
        yield {"kind": "maildir", "path": str(path)}, {}
        return
    files = sorted(file for file in path.rglob("*.eml") if file.is_file())
    if not files:
        expectation = "a Maildir (with new/ or cur/ in it), an mbox, or a folder of files .eml"
        raise RequestError(f"expected mails at {path}: {expectation}; found none")
    with tempfile.TemporaryDirectory(prefix="narval-mails-") as folder:
        new = Path(folder, "new")
        new.mkdir()
        links = {str(new / f"{number:09}"): str(file) for number, file in enumerate(files)}
        for link, file in links.items():
            Path(link).symlink_to(file)
        yield {"kind": "maildir", "path": folder}, links


def _by_file(message: str, links: Mapping[str, str]) -> str:
    """A message that names the file instead of the link to it."""
    link = next((link for link in links if link in message), None)
    return message if link is None else message.replace(link, links[link])


def _once(outputs: list[OutputElement]) -> Iterator[Element]:
    """The elements as a source yields them: of those with the same key only the first."""
    seen: set[str] = set()
    for output in outputs:
        element = Element(0, output.xml)
        key = element.attributes.get("key", "")
        if not key or key not in seen:
            seen.add(key)
            yield element


def with_mails(scenario: Scenario, mails: Mails) -> Scenario:
    """The scenario with these mails arriving from its beginning on, some in each second."""
    batches = range(0, len(mails.elements), TOGETHER)
    arrivals = (
        ScheduledElement(mails.elements[first : first + TOGETHER], When(after=float(second)))
        for second, first in enumerate(batches)
    )
    return msgspec.structs.replace(scenario, arrivals=(*scenario.arrivals, *arrivals))


def outcome_of(report: SimulationReport, mails: Mails) -> dict[str, Any]:
    """The outcome for the mails, as plain data: the number of mails for each verdict and reason, the largest
    first, and the letters that would be sent.
    """
    verdicts: dict[tuple[str, str], tuple[str, str, str]] = {}
    for line in report.lines:
        if line["what"] == "added" and line["xml"].startswith(f"<{VERDICT} "):
            said = root_attributes(line["xml"])
            about = line.get("who", ""), said.get("mail", "")
            verdicts[about] = said.get("verdict", ""), said.get("rule", ""), said.get("why", "")
    counts = sorted(Counter(verdicts.values()).items(), key=lambda pair: (-pair[1], pair[0]))
    return {
        "folder": mails.folder,
        "mails": len(mails.elements),
        "unread": list(mails.unread),
        "verdicts": [
            {"verdict": verdict, "rule": rule, "why": why, "count": count}
            for (verdict, rule, why), count in counts
        ],
        "letters": list(_letters(report)),
    }


def _letters(report: SimulationReport) -> Iterator[dict[str, Any]]:
    """The letters that calls would send, each once, however often sending is tried."""
    for call in report.calls:
        if call.how != RAN and call.attempt == 1:
            for letter in (element for _, elements in call.inputs for element in elements):
                said = letter.attributes
                if letter.name == DRAFT or (letter.name == MAIL and "kind" in said):
                    about = {name: said.get(name, "") for name in ("to", "subject", "in-reply-to")}
                    yield {"action": call.action, "run": call.run, **about}
