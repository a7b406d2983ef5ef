"""The check of a call's outputs against its prototype (N7, N20, N37)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from lxml import etree

from narval.core.definitions.prototype import REPLACES, Output, Prototype
from narval.core.definitions.unique import unique_value
from narval.core.elements.element import Element, Tree
from narval.core.engines.candidates import Bindings
from narval.core.engines.events import OutputElement
from narval.core.engines.view import View
from narval.core.patterns.pattern import Bound, condition

ERROR = "error"

UniqueKey = tuple[str, str, str]
"""The value of `unique` for an element: name, expression, value."""

Accepted = tuple[Element, UniqueKey | None, Bound | None]
"""An element that may enter memory, the key of a unique output, and the condition on what it replaces."""


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """The elements to keep, not numbered yet; or the fault, and the output it concerns."""

    accepted: tuple[Accepted, ...] = ()
    errors: tuple[Accepted, ...] = ()
    fault: str = ""
    output: str = ""


NOTHING = Verdict()


def judge(
    prototype: Prototype,
    raws: tuple[OutputElement, ...],
    view: View,
    bindings: Callable[[frozenset[str]], Bindings] = lambda variables: {},
    *,
    complete: bool = True,
) -> Verdict:
    """Check that each element matches exactly one output, none is missing, and only lists have several.

    `bindings` gives the elements of variables, if outputs have any. `complete=False` is for what an active
    call has produced: nothing can be missing yet. `error` elements need no declaration and are never outputs;
    if there is one, nothing counts as missing. Those of an active call may still be declared, and then have a
    key too, because a source that restarts reports the same error again. The error that ends a call has no
    key, since it is always reported.
    """
    bounds = prototype.bound_outputs
    if prototype.output_variables:
        bound_to = bindings(prototype.output_variables)
        bounds = tuple((output, output.condition.bind(bound_to)) for output, _ in bounds)
    errors: list[Accepted] = []
    accepted: list[Accepted] = []
    counts: dict[str, int] = {}
    for raw in raws:
        element = Element(0, raw.xml)
        refusal = view.schema_fault(raw.xml)
        if refusal is not None:
            fault = f"a {element.name} element is refused by its schema: {refusal}"
            return Verdict(fault=fault, output=raw.output or "")
        name = element.name
        erred = name == ERROR
        if erred and complete:
            errors.append((element, None, None))
            continue
        fitting, tree = _fitting(element, name, bounds)
        if not erred and (len(fitting) != 1 or raw.output not in (None, fitting[0].id)):
            fault = _misfit(prototype, raw, element, fitting)
            return Verdict(fault=fault, output=raw.output or ", ".join(output.id for output in fitting))
        key = earlier = None
        if fitting:
            output = fitting[0]
            counts[output.id] = counts.get(output.id, 0) + 1
            if output.unique is not None:
                fault, key = _key(output, tree or Tree(element))
                if fault:
                    named = raw.output or ", ".join(output.id for output in fitting)
                    return Verdict(fault=fault, output=named)
            if output.replaces is not None:
                earlier = _earlier(output.replaces, element)
        (errors if erred else accepted).append((element, key, earlier))
    if complete and counts != prototype.each_output_once:
        for output in prototype.outputs:
            fault = _miscount(output, counts.get(output.id, 0), bool(errors))
            if fault:
                return Verdict(fault=fault, output=output.id)
    return Verdict(tuple(accepted), tuple(errors))


def _fitting(
    element: Element, name: str, bounds: tuple[tuple[Output, Bound], ...]
) -> tuple[list[Output], Tree | None]:
    """The outputs that an element matches; and its tree, if its name was not enough to tell."""
    tree: Tree | None = None
    fitting = []
    for output, bound in bounds:
        if name not in bound.sufficient:
            tree = tree or Tree(element)
            if not bound.test(tree):
                continue
        fitting.append(output)
    return fitting, tree


def _misfit(prototype: Prototype, raw: OutputElement, element: Element, fitting: list[Output]) -> str:
    outputs = ", ".join(f"{output.id} ({output.condition.text})" for output in prototype.outputs) or "none"
    if raw.output is not None and all(output.id != raw.output for output in prototype.outputs):
        return f"element {element.name} was returned under the key {raw.output!r}; declared: {outputs}"
    if not fitting:
        return f"element {element.name} fits no output; declared: {outputs}"
    if len(fitting) > 1:
        return f"element {element.name} fits several outputs: {', '.join(output.id for output in fitting)}"
    return f"element {element.name} was returned for output {raw.output} but fits {fitting[0].id}"


def _miscount(output: Output, count: int, erred: bool) -> str:
    if count > 1 and not output.list:
        return f"output {output.id} takes one element, got {count}"
    if count == 0 and not output.optional and not erred:
        return f"output {output.id} ({output.condition.text}) is missing"
    return ""


def _key(output: Output, tree: Tree) -> tuple[str, UniqueKey | None]:
    """The fault of `unique` or "", and its key; an empty value has no key."""
    assert output.unique is not None, output
    try:
        value = unique_value(output.unique, output.namespaces, tree)
    except etree.XPathError as error:
        return f"the unique expression {output.unique!r} cannot be evaluated: {error}", None
    return "", (str(tree.root.tag), output.unique, value) if value else None


def _earlier(text: str, element: Element) -> Bound | None:
    """The condition on the elements that this one replaces, by `replaces` of its output; None if it lacks the
    attribute or has a namespace.
    """
    match = REPLACES.fullmatch(text)
    assert match is not None, text
    name, attribute = match["name"] or element.name, match["attribute"]
    if attribute not in element.attributes or name.startswith("{"):
        return None
    return condition(f"{name}[@{attribute} = $new/@{attribute}]").bind({"new": (element,)})
