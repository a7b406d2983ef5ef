"""Basic actions, needed in every cookbook (issue 2, item 6; the page is docs/reference/modules/basic.md).

Most are answered in the loop itself, as they take microseconds. If an input accepts any element, a step
selects one by its own `match` (N14).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from lxml import etree

from narval import ActionError, Element, Input, Needs, Output, action, sleep

from .files.places import atomically, place

log_of_narval = logging.getLogger("narval.basic")

LONGEST_LINE = 2_000
LONGEST_PAUSE = 3_600.0
LEVELS = {"error": logging.ERROR, "warning": logging.WARNING}
"""The level at which an element of that name is logged; any other at INFO."""

ANY = "*[not(self::{0})]"
"""Any element except the argument that says what to do with it, which is nearer than all others."""


@action(runs="inline", pure=True, description="Does nothing.")
def nothing() -> None:
    """Do nothing: a step to join at, or to continue from."""


@action(
    inputs=[Input("pause", "pause[@seconds]", reads="seconds")],
    pure=True,
    description="Waits for the given number of seconds.",
)
async def pause(pause: Element) -> None:
    """Wait as long as `<pause seconds="…"/>` says: a moment of quiet, not a date. A restart waits again."""
    text = pause.attributes["seconds"]
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds <= LONGEST_PAUSE:
        raise ActionError(f"expected a pause of 0 to {LONGEST_PAUSE:g} seconds, got {text!r}", "bad-pause")
    await sleep(seconds)


@action(
    inputs=[Input("element", "*")],
    runs="inline",
    pure=True,
    description="Lets the element waited for join the plan.",
)
def wait_for(element: Element) -> None:
    """Accept an element and return nothing: it joins the context of the plan, without a copy.

    The condition of the transition that leads here says which element is awaited.
    """


@action(
    inputs=[
        Input("element", ANY.format("copy-as")),
        Input("copy-as", "copy-as", optional=True, reads="name"),
    ],
    outputs=[Output("copy", "*")],
    runs="inline",
    pure=True,
    description="The same element again, under another name or with other attributes.",
)
def copy(element: Element, copy_as: Element | None) -> etree._Element:
    """Return a copy of the element, changed by `<copy-as name="…"><attribute name="…" value="…"/></copy-as>`.

    An `attribute` without a value is removed.
    """
    fresh = _tree(element)
    if copy_as is not None:
        wish = copy_as.tree()
        fresh.tag = _named(wish.get("name") or element.name)
        for attribute in wish.iterfind("attribute"):
            name, value = _named(attribute.get("name", "")), attribute.get("value")
            if value is None:
                fresh.attrib.pop(name, None)
            else:
                fresh.set(name, value)
    return fresh


@action(
    inputs=[Input("elements", "*", list=True)],
    outputs=[Output("collection", "collection")],
    runs="inline",
    pure=True,
    description="One element that holds copies of all those given.",
)
def collect(elements: list[Element]) -> etree._Element:
    """Put copies of elements into one; each keeps its `eid`, which identifies the original."""
    collection = etree.Element("collection", count=str(len(elements)))
    collection.extend(element.tree() for element in elements)
    return collection


@action(
    inputs=[Input("counter", "counter", outdates=True, reads="name value by")],
    outputs=[Output("counter", "counter")],
    runs="inline",
    pure=True,
    description="The counter, increased; it replaces the one before.",
)
def count(counter: Element) -> etree._Element:
    """Add `by` (by default 1) to `value`; no two calls take the same counter (N18)."""
    fresh = _tree(counter)
    fresh.set("value", str(_number(fresh, "value", "0") + _number(fresh, "by", "1")))
    return fresh


@action(
    inputs=[Input("message", "message", optional=True, reads="type")],
    runs="inline",
    pure=True,
    description="An error, on purpose: to end a plan, or to try how errors are handled.",
)
def error(message: Element | None) -> etree._Element:
    """Return an error element of the `type` and with the text of `<message type="…">…</message>`."""
    kind = message.attributes.get("type") if message is not None else None
    made = etree.Element("error", type=kind or "on-purpose")
    text = " ".join(message.text.split()) if message is not None else ""
    etree.SubElement(made, "message").text = text or "a step of the recipe asks for an error"
    return made


@action(outputs=[Output("quit", "quit")], runs="inline", pure=True, description="Ends the daemon well.")
def stop() -> etree._Element:
    """Return the `quit` element that ends the daemon (N34)."""
    return etree.Element("quit")


@action(
    inputs=[Input("start", "start[@recipe]", reads="recipe")],
    outputs=[Output("start-plan", "start-plan[@recipe]")],
    runs="inline",
    pure=True,
    description="Starts a plan of a recipe, on its own.",
    where=["start/@recipe"],
)
def start(start: Element) -> etree._Element:
    """Return the `start-plan` that starts a definition (N4); its first context is the children of `start`."""
    made = start.tree()
    made.tag = "start-plan"
    return made


@action(
    inputs=[Input("element", "*")],
    runs="inline",
    outside=False,
    needs=Needs(),
    description="Writes an element to the daemon's log.",
    where=[],
)
def log(element: Element) -> None:
    """Log an element as one line of XML: an error at the level of errors, any other as information."""
    line = " ".join(element.with_eid().decode().split())
    printable = "".join(letter if letter.isprintable() else "\ufffd" for letter in line)
    if len(printable) > LONGEST_LINE:
        printable = printable[: LONGEST_LINE - 1] + "…"
    log_of_narval.log(LEVELS.get(element.name, logging.INFO), "%s", printable)


@action(
    inputs=[Input("content", ANY.format("target")), Input("target", "target[@path]", reads="path as folder")],
    outputs=[Output("written", "written[@path]")],
    description="An element as a file: its XML, its text, or a page.",
    where=["target/@path", "target/@folder"],
    needs=Needs(folders=["[home] rw", "{target/@folder} rw"]),
)
def write_file(content: Element, target: Element) -> etree._Element:
    """Write an element to the file that `<target path="…" as="xml|text|html"/>` names, whole or not at all.

    Without `as` an `html` element is written as an HTML page, any other as XML.
    """
    attributes = target.attributes
    form = attributes.get("as") or ("html" if content.name == "html" else "xml")
    if form not in FORMS:
        raise ActionError(
            f"expected a target's as to be one of {', '.join(FORMS)}, got {form!r}", "bad-target"
        )
    data: bytes = FORMS[form](content)
    atomically(place(target), lambda file: file.write(data))
    return etree.Element("written", path=attributes["path"], size=str(len(data)))


FORMS: Mapping[str, Callable[[Element], bytes]] = {
    "xml": lambda content: etree.tostring(_tree(content), encoding="utf-8", xml_declaration=True) + b"\n",
    "text": lambda content: content.text.encode(),
    "html": lambda content: etree.tostring(
        _tree(content), encoding="utf-8", method="html", doctype="<!DOCTYPE html>"
    ),
}


def _tree(element: Element) -> etree._Element:
    """A copy to be changed, without the eid of the original."""
    tree = element.tree()
    tree.attrib.pop("eid", None)
    return tree


def _named(name: str) -> str:
    try:
        etree.QName(name)
    except ValueError:
        raise ActionError(f"expected the name of an element or attribute, got {name!r}", "bad-name") from None
    return name


def _number(counter: etree._Element, attribute: str, missing: str) -> int:
    text = counter.get(attribute, missing)
    try:
        return int(text)
    except ValueError:
        raise ActionError(
            f"expected {attribute} of a counter to be a whole number, got {text!r}", "bad-counter"
        ) from None
