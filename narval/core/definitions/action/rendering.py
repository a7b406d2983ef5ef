"""The `action` element of an action, as memory shows it (N2)."""

from __future__ import annotations

from lxml import etree

from narval.core.definitions.action.definition import Action, Input, Output
from narval.core.definitions.action.resources import shown_resources


def render(action: Action, runs: str | None, source: bool, outside: bool | None) -> bytes:
    """The `action` element that memory shows (table 2.16)."""
    root = etree.Element("action", {"name": action.name, "group": action.group, "func": action.function})
    if runs is not None:
        root.set("runs", str(runs))
    for flag, is_set in (("source", source), ("pure", action.pure)):
        if is_set:
            root.set(flag, "yes")
    if outside is not None:
        root.set("outside", "yes" if outside else "no")
    if action.resources:
        root.set("resources", shown_resources(action.resources))
    if action.model:
        root.set("model", action.model)
    if action.describe is not None:
        root.set("describe", action.describe.text)
    for language, text in action.descriptions.items():
        etree.SubElement(root, "description", {"lang": language}).text = text
    for word, flags, declared in (
        ("input", ("use", "list", "optional", "outdates"), action.prototype.inputs),
        ("output", ("list", "optional"), action.prototype.outputs),
    ):
        for slot in declared:
            node = etree.SubElement(root, word, {"id": slot.id}, nsmap=dict(slot.namespaces))
            for flag in flags:
                if getattr(slot, flag):
                    node.set(flag, "yes")
            if isinstance(slot, Input) and slot.newest:
                node.set("newest", str(slot.newest))
            for name in ("unique", "replaces") if isinstance(slot, Output) else ():
                if (text := getattr(slot, name)) is not None:
                    node.set(name, text)
            for text in slot.match:
                etree.SubElement(node, "match").text = text
    return etree.tostring(root, encoding="utf-8")
