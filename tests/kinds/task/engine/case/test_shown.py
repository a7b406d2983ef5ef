"""A case as people see it: its element, its graph, and why each object and step is as it is (K67)."""

from __future__ import annotations

from lxml import etree

from narval.core.engines.graph import GraphEdge, GraphNode
from narval.kinds.task.engine.case import engine
from tests.kinds.task.engine.case.cases import Cases, task


def folder() -> tuple[Cases, int, int, int, int]:
    """A folder that was split: one page is at `b` after `a`, the other was refused, and nobody took it."""
    types = (task("enter", "unenter"), task("a", "undo_a"), "b", "c", "unenter", "undo_a")
    cases = Cases(*types)
    whole = cases.add("<folder/>")
    case = cases.begins_case("enter", whole)
    one, two = cases.add("<page n='1'/>"), cases.add("<page n='2'/>")
    cases.passes_task(case, whole, ("a", one), ("c", two), parts={whole: [one, two]})
    cases.passes_task(case, one, ("b", 0))
    cases.passes_task(case, two, result="EXCEPTION")
    return cases, case, whole, one, two


def why(cases: Cases, case: int, part: str) -> str | None:
    return engine.explain(cases.definitions[case], cases.states[case], part)


def test_K67_the_element_of_a_case_tells_where_its_objects_are_and_what_they_passed() -> None:
    cases, case, whole, one, two = folder()
    shown = etree.fromstring(engine.render(cases.definitions[case], cases.states[case], (whole,)))
    assert (shown.tag, dict(shown.attrib)) == ("task-case", {"name": "g.enter", "state": "held"})
    objects = [(row.get("id"), row.get("state"), row.get("type")) for row in shown.iterfind("object")]
    assert objects == [
        (str(whole), "parts", "g.enter"),
        (str(one), "task", "g.b"),
        (str(two), "held", "g.c"),
    ]
    steps = [(row.get("id"), row.get("type"), row.get("compensator")) for row in shown.iterfind("step")]
    assert steps == [("step1", "g.enter", "g.unenter"), ("step2", "g.a", "g.undo_a")]


def test_K67_the_graph_of_a_case_is_the_way_of_its_objects() -> None:
    cases, case, _, one, two = folder()
    parts = engine.graph(cases.definitions[case], cases.states[case]).parts
    nodes = {part.id: part for part in parts if isinstance(part, GraphNode)}
    edges = {(part.start, part.end, part.label) for part in parts if isinstance(part, GraphEdge)}
    assert edges == {("g.enter", "g.a", "part 1"), ("g.a", "g.b", "part 1"), ("g.enter", "g.c", "part 2")}
    status = {name: (node.status, [mark.label for mark in node.marks]) for name, node in nodes.items()}
    assert status == {
        "g.enter": ("passed", []),
        "g.a": ("passed", []),
        "g.b": ("here", [f"object {one}"]),
        "g.c": ("here", [f"object {two}"]),
    }


def test_K67_the_graph_draws_a_way_once_however_many_took_it() -> None:
    cases = Cases("enter", "a")
    case = cases.begins_case("enter", whole := cases.add("<folder/>"))
    pages = [cases.add("<page/>") for _ in range(30)]
    cases.passes_task(case, whole, *(("a", page) for page in pages), parts={whole: pages})
    parts = engine.graph(cases.definitions[case], cases.states[case]).parts
    assert [part.label for part in parts if isinstance(part, GraphEdge)] == ["30 objects"]


def test_K67_the_graph_shows_where_the_way_of_an_object_has_ended() -> None:
    cases = Cases("enter", "pay")
    case = cases.begins_case("enter", order := cases.add("<order/>"))
    cases.passes_task(case, order, ("pay", 0))
    cases.passes_task(case, order, result="COMMIT")
    parts = engine.graph(cases.definitions[case], cases.states[case]).parts
    assert [(part.start, part.end) for part in parts if isinstance(part, GraphEdge)] == [("g.enter", "g.pay")]
    assert [part.status for part in parts if isinstance(part, GraphNode)] == ["passed", "passed"]


def test_each_object_and_step_can_say_why_it_is_so() -> None:
    cases, case, whole, one, two = folder()
    assert why(cases, case, str(whole)) == "it goes on as 2 parts, 2 of which are under way"
    assert why(cases, case, str(one)) == (
        "it waits to be told by g.b, which has it in its queue or at work, where it goes: "
        f"narval task where {one}"
    )
    assert (why(cases, case, str(two)) or "").startswith(
        "it cannot go on by itself: g.c came to EXCEPTION (error "
    )
    assert (why(cases, case, "step2") or "").endswith("FORWARD; g.undo_a can undo it")
    assert (why(cases, case, "step3"), why(cases, case, "nonsense")) == (None, None)
    cases.cancel(case)
    cases.withdraws(one)
    assert (why(cases, case, "step2") or "").endswith("g.undo_a undoes it")
    cases.compensates(well=False)
    assert "g.undo_a, which compensates g.a, failed: the bank said no (error " in (
        why(cases, case, "step2") or ""
    )
    assert why(cases, case, str(one)) == "it was withdrawn at g.b: enough"


def test_a_case_is_not_begun_again_but_goes_on() -> None:
    assert engine.instead_of_retry == "what cannot go on, goes on by hand: narval task retry"
