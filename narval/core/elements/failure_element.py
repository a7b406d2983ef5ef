"""The `failure` element: a failed top-level run, as recipes and people see it in memory."""

from __future__ import annotations

from lxml import etree

from narval.core.elements.element import Element, parse
from narval.core.elements.error_element import read_error, xml_safe
from narval.core.source.secrets import without_secrets

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
