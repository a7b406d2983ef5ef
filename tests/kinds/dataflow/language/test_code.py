# ruff: noqa: E501
"""Operators, wrappers and functions that modules declare for dataflows (T57, TA19)."""

from __future__ import annotations

import pytest

from narval.files.found_files import ModuleText
from narval.files.modules import Imported, ModulePackage
from narval.kinds.dataflow.language.code import DataflowCode

HEAD = "from narval import function, operator, wrapper\n"


def read(text: str) -> Imported:
    module = ModuleText.of("modules/geo.py", (HEAD + text).encode())
    return ModulePackage(lambda wanted: iter([module]) if wanted == "geo" else None).load(["geo"])


def faults(text: str) -> list[str]:
    return [f"{fault.line}:{fault.column}: {fault.message}" for fault in read(text).faults.get("geo", ())]


def test_T57_all_that_a_module_declares_is_found() -> None:
    imported = read(
        """
@operator("Geocode", inputs="String address", outputs="TupleStream places", io_bound=True, reentrant=True)
async def look_up(address):
    "Look up an address."

@operator(inputs="TupleStream a, TupleStream b*", outputs="TupleStream x, TupleStream y", conditional=True)
class choose:
    def on_a(self, tuples): ...
    def on_b(self, tuples): ...

@wrapper(attributes={"price": "number"}, runs="worker")
def homes(query): ...

@function("cheap", pure=True)
def is_cheap(home): ...
"""
    )
    assert imported.faults == {}
    found = {one.key: one for one in imported.modules["geo"].found if isinstance(one, DataflowCode)}
    geocode, choose = found["operator:Geocode"], found["operator:choose"]
    assert geocode.operator is not None
    assert choose.operator is not None
    assert (geocode.operator.signature, geocode.where) == (
        "Geocode (String address : TupleStream places)",
        "async",
    )
    assert (geocode.operator.io, geocode.operator.reentrant, geocode.operator.kind) == (True, True, "I")
    assert geocode.descriptions == {"en": "Look up an address."}
    assert (choose.operator.conditional, choose.operator.inputs[1].many) == (True, True)
    assert (found["wrapper:homes"].attributes, found["wrapper:homes"].where) == (
        {"price": "Number"},
        "worker",
    )
    assert (found["function:cheap"].pure, found["function:cheap"].function) == (True, "is_cheap")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('@operator(inputs="x", outputs="")\ndef f(x): ...', "3:1: @operator: expected a type before 'x', as in: String x"),
        (
            '@operator(inputs="", outputs="")\ndef select(): ...',
            "3:1: @operator: narval has the operator select (String cond, TupleStream in : TupleStream out); "
            "expected another name",
        ),
        (
            '@operator(inputs="TupleStream a", outputs="")\nclass f: ...',
            "3:1: @operator: expected a method on_a, which is given the tuples of a",
        ),
        (
            '@operator(inputs="String a", outputs="")\nclass f: ...',
            "3:1: @operator: expected a method on_init: no stream comes to this operator",
        ),
        (
            '@operator(inputs="", outputs="String a", conditional=True)\ndef f(): ...',
            "3:1: @operator: a conditional operator chooses between outputs; expected two or more",
        ),
        (
            '@operator(inputs="", outputs="")\nclass f:\n    def __init__(self, x): ...\n    def on_init(self): ...',
            "3:1: @operator: expected a class that is made without arguments, but it needs x",
        ),
        (
            "@wrapper(attributes={})\ndef f(query): ...",
            '3:1: @wrapper: expected attributes={"name": "String", …}, those of each dict that it yields',
        ),
        (
            '@wrapper(attributes={"a": "Date"})\ndef f(query): ...',
            "3:1: @wrapper: attributes: expected a name, and String or Number, found 'a': 'Date'",
        ),
        (
            "@wrapper(attributes={\"a\": \"Number('1.234')\"})\ndef f(query): ...",
            "3:1: @wrapper: attributes: 'a': expected an example that shows thousands and decimals",
        ),
        ("@function\nclass f: ...", "3:1: @function: expected a function"),
        ("@function('a b')\ndef f(x): ...", "3:1: @function: expected a name without blanks, found 'a b'"),
    ],
)  # fmt: skip
def test_a_declaration_with_a_fault_has_its_place(text: str, wanted: str) -> None:
    assert any(one.startswith(wanted) for one in faults(text))
