"""Whether what a call gave back is what its prototype promised (N7, N20, N37)."""

from __future__ import annotations

from functools import lru_cache

import msgspec
from lxml import etree

from narval.definitions.prototype import Output, Prototype
from narval.engines.engine import View
from narval.engines.events import Raw
from narval.memory.element import Element, Tree

ERROR = "error"


class Accepted(msgspec.Struct, frozen=True, omit_defaults=True):
    """An element that may enter memory, and the key its output's `unique` gives it: (name, expression, value)."""

    xml: bytes
    key: tuple[str, str, str] | None = None


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """What to keep; `fault` says what is wrong and `output` with which output."""

    accepted: tuple[Accepted, ...] = ()
    errors: tuple[bytes, ...] = ()
    fault: str = ""
    output: str = ""


def judge(prototype: Prototype, raws: tuple[Raw, ...], view: View, *, complete: bool = True) -> Verdict:
    """Each element fits exactly one output, none is missing, only a list has several (N20).

    `complete=False` for what a call produced while it goes on: nothing can be missing yet. `error` elements need
    no declaration, and when there is one nothing counts as missing.
    """
    errors: list[bytes] = []
    accepted: list[Accepted] = []
    counts: dict[str, int] = {}
    for raw in raws:
        element = Element(0, raw.xml)
        refusal = view.schema_fault(raw.xml)
        if refusal is not None:
            return Verdict(fault=f"a {element.name} element is refused by its schema: {refusal}", output=raw.output or "")
        fitting = [output for output in prototype.outputs if view.fits(element, output.condition.bind({}))]
        if not fitting and element.name == ERROR:
            errors.append(raw.xml)
            continue
        fault = _misfit(prototype, raw, element, fitting)
        if fault:
            return Verdict(fault=fault, output=raw.output or (fitting[0].id if fitting else ""))
        output = fitting[0]
        counts[output.id] = counts.get(output.id, 0) + 1
        if counts[output.id] > 1 and not output.list and complete:
            return Verdict(fault=f"output {output.id} takes one element, got several", output=output.id)
        accepted.append(Accepted(raw.xml, _key(output, element)))
    if complete and not errors:
        for output in prototype.outputs:
            if not output.optional and output.id not in counts:
                return Verdict(fault=f"output {output.id} ({_wanted(output)}) is missing", output=output.id)
    return Verdict(accepted=tuple(accepted), errors=tuple(errors))


def _misfit(prototype: Prototype, raw: Raw, element: Element, fitting: list[Output]) -> str:
    if not fitting:
        wanted = ", ".join(f"{output.id} ({_wanted(output)})" for output in prototype.outputs) or "none"
        return f"a {element.name} element fits no output; declared: {wanted}"
    if len(fitting) > 1:
        return f"a {element.name} element fits several outputs: {', '.join(output.id for output in fitting)}"
    if raw.output is not None and raw.output != fitting[0].id:
        return f"a {element.name} element was returned for output {raw.output} but fits {fitting[0].id}"
    return ""


def _wanted(output: Output) -> str:
    return " and ".join(pattern.text for pattern in output.condition.patterns)


def _key(output: Output, element: Element) -> tuple[str, str, str] | None:
    if output.unique is None:
        return None
    value = _string_of(output.unique)(Tree(element).root)
    return (element.name, output.unique, str(value)) if value else None


@lru_cache(maxsize=1024)
def _string_of(expression: str) -> etree.XPath:
    return etree.XPath(f"string({expression})")
