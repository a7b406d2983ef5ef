"""Elements that narval makes itself: errors and failures, notes about elements and incidents, requests to
grant, signals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from lxml import etree

from narval.core.elements.canonical import canonical
from narval.core.elements.element import SIGNAL, Element, parse, text_within
from narval.core.source.secrets import without_secrets

_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_LONGEST = 20_000


def xml_safe(text: str, instead: str = "\ufffd") -> str:
    """The text with U+FFFD, or `instead`, for every character that is invalid in XML."""
    return _UNWRITABLE.sub(instead, text)


# --- error: a failure as definitions and people see it in memory ------------------------------------------


def make_error(kind: str, message: str, detail: str = "", **where: str | int | None) -> bytes:
    """The bytes of `<error type="kind" …><message>…</message><detail>…</detail></error>`.

    `where` becomes attributes (plan, recipe, step, action, input, …); None and "" are left out.
    """
    root = etree.Element("error", type=xml_safe(kind))
    for name, value in where.items():
        if value is not None and value != "":
            root.set(name, xml_safe(str(value)))
    etree.SubElement(root, "message").text = xml_safe(message[:_LONGEST]) or None
    if detail:
        etree.SubElement(root, "detail").text = xml_safe(detail[-_LONGEST:])
    return etree.tostring(root, encoding="utf-8")


def read_error(element: Element) -> tuple[str, str, str]:
    """The type, message and step of an error element; one made by an action may lack any of them."""
    root = parse(element.xml)
    message_node = root.find("message")
    message = text_within(root if message_node is None else message_node) or root.get("message", "")
    return root.get("type", "error"), " ".join(message.split()), root.get("step", "")


# --- failure: a failed top-level run ----------------------------------------------------------------------

FAILURE = "failure"

LONGEST_MESSAGE = 2_000


def make_failure(run: int, kind: str, name: str, error: Element | None, step: str, after: int) -> bytes:
    """The bytes of `<failure run="12" kind="plan" name="w.r" step="s" type="…" error="11">message</failure>`.

    `error` is the element that says why the run failed in that step, if there is one, and `after` the
    previous failed run in a row; attributes without a value are left out.
    """
    root = etree.Element(FAILURE, run=str(run), kind=kind, name=name)
    if after:
        root.set("after", str(after))
    if error is not None:
        cause, message, _ = read_error(error)
        for attribute, value in (("step", step), ("type", cause), ("error", str(error.eid))):
            if value:
                root.set(attribute, xml_safe(value))
        root.text = xml_safe(without_secrets(message)[:LONGEST_MESSAGE]) or None
    return etree.tostring(root, encoding="utf-8")


def read_failure(element: Element) -> tuple[str, str, str, str, str]:
    """The kind and name of the failed run, the part, the type of its error, and the message."""
    root = parse(element.xml)
    kind, name, step, cause = (str(root.get(attribute, "")) for attribute in ("kind", "name", "step", "type"))
    return kind, name, step, cause, " ".join((root.text or "").split())


# --- acknowledged: incidents that a person has seen and that need nothing more ----------------------------

ACKNOWLEDGED = "acknowledged"


def make_acknowledged(incident: str, count: int, reason: str, **about: str) -> bytes:
    """The bytes of `<acknowledged incident="3f9c01ab" count="3" definition="w.r" … reason="…"/>`.

    `about` are attributes that describe the incident; empty ones, and an empty reason, are left out.
    """
    root = etree.Element(ACKNOWLEDGED, incident=incident, count=str(count))
    for name, value in {**about, "reason": reason}.items():
        if value:
            root.set(name, xml_safe(value))
    return etree.tostring(root, encoding="utf-8")


def read_acknowledged(element: Element) -> tuple[str, str]:
    """The incident that such an element names, and its reason."""
    root = parse(element.xml)
    return str(root.get("incident", "")), str(root.get("reason", ""))


# --- notes about elements, and requests -------------------------------------------------------------------

OUTDATED, WITHDRAWN, CONFIRMED = "outdated", "withdrawn", "confirmed"
"""Notes about elements that no longer count though nothing replaced them, that should never have
counted, and that are no longer doubtful.
"""

NOTES = frozenset({OUTDATED, WITHDRAWN, CONFIRMED})
"""The root names of such notes."""


def make_note(name: str, eids: Iterable[int], reason: str) -> bytes:
    """The bytes of a note, such as `<outdated elements="3 4" reason="…"/>`; a reason of "" is left out."""
    root = etree.Element(name, elements=" ".join(map(str, eids)))
    if reason:
        root.set("reason", xml_safe(reason))
    return etree.tostring(root, encoding="utf-8")


def reason_in(element: Element) -> str:
    """The reason in such an element, or ""."""
    return str(parse(element.xml).get("reason", ""))


GRANT_REQUEST = "grant-request"
"""The element that asks to grant what a definition needs."""


def make_request(kind: str, name: str, path: str, needs: Iterable[str]) -> bytes:
    """The bytes of `<grant-request kind="recipe" name="post.send" path="…"><need>…</need></grant-request>`: a
    definition that may not start, with each need to be granted.
    """
    root = etree.Element(GRANT_REQUEST, {"kind": kind, "name": name, "path": xml_safe(path)})
    for need in needs:
        etree.SubElement(root, "need").text = xml_safe(need)
    return etree.tostring(root, encoding="utf-8")


def signal_element(run: int, name: str, attributes: Mapping[str, object], elements: Iterable[bytes]) -> bytes:
    """A signal to a run, as an element with these contents: `<signal name="approve" run="12">`.

    Raises ElementError if it is too large or too deep.
    """
    root = etree.Element(SIGNAL, name=name, run=str(run))
    for key, value in attributes.items():
        if value is not None and key not in root.attrib:
            root.set(key, str(value))
    root.extend(map(parse, elements))
    return canonical(root)
