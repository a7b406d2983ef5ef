"""What can be told of a dataflow without a run: branches, recursion, what never fires, what spills."""

from __future__ import annotations

from narval.core.definitions.library import Library
from narval.core.definitions.parsing import warnings
from narval.kinds.dataflow.engine.structure import unreachable
from tests.kinds.dataflow.language.reading import one, plan

BRANCHES = plan(
    'compare(n, 3, "<" : few, many)\n'
    'fetch("http://a/" : page) WAIT: few\n'
    'fetch("http://b/" : other) WAIT: many\n'
    "noop() WAIT: few, many ENABLE: both\n"
    'join("", page, other : all)\n'
    "noop() WAIT: both",
    "Number n",
    "all",
)


def found(text: str) -> list[str]:
    return [f"{it.severity} {it.line}: {it.message}" for it in unreachable(one(text), Library())]


def test_TA5_what_needs_both_ways_of_a_conditional_operator_never_fires() -> None:
    told = found(BRANCHES)
    needs = "it needs 'true' of compare-1 and 'false' of compare-1"
    assert told == [
        "note 4: compare-1 takes one way (true: fetch-1; false: fetch-2)",
        f"error 7: noop never fires: {needs}, which exclude each other",
        f"error 8: join never fires: {needs}, which exclude each other",
        f"error 9: noop never fires: {needs} and 'done' of noop-1, which exclude each other",
    ]


def test_TA9_lints_are_warnings() -> None:
    definition = one(BRANCHES)
    told = warnings([definition], Library([definition]))
    assert [(fault.line, fault.message.partition(":")[0], fault.warning) for fault in told] == [
        (7, "noop never fires", True),
        (8, "join never fires", True),
        (8, "join", True),
        (9, "noop never fires", True),
    ]
    turned = one(plan('retrieve(source, "homes" : out)', "String source", "out"))
    assert (
        "if 'homes' is one, write retrieve(\"homes\", source : …)" in warnings([turned], Library())[0].message
    )


def test_TA34_TA41_recursion_and_spilling_are_told() -> None:
    text = (
        "PLAN Spider { INPUT: Tuple links OUTPUT: pages\n"
        "BODY { atleastone(links : some, pages)\n"
        'select("depth = 9", some : deep)\n'
        "difference(some, deep : next)\n"
        "Spider(next : pages) } }"
    )
    assert found(text) == [
        "note 2: atleastone-1 takes one way (out_true: select-1, difference-1, Spider-1; "
        "out_false: nothing more)",
        "note 4: difference-1 holds back a stream until more of what it comes from is there; "
        "beyond its bounds it spills to disk",
        "note 5: Spider-1 calls its own dataflow, only after 'out_true' of atleastone-1",
    ]
