"""Where the tokens of a process can come: what cannot be is told, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import narval
from narval.core.definitions.library import Library
from narval.core.definitions.parsing import parse
from narval.core.source.text import Source
from narval.kinds.process.engine.structure import unreachable
from narval.kinds.process.language.code import Code
from narval.kinds.process.language.composition import compose_all
from narval.kinds.process.language.definition import Process
from tests.examples import examples

START = '<node name="s" isStart="true">{}</node>'


def told(*texts: str, others: tuple[Any, ...] = ()) -> list[str]:
    """What is told of the first of some processes."""
    definitions: list[Any] = list(others)
    for number, text in enumerate(texts):
        whole = f'<process-definition name="p{number}" group="g">{text}</process-definition>'
        definitions += parse(Source("recipes/g.xml", whole.encode())).checked()
    library, faults = compose_all(Library(definitions))
    assert faults == []
    process = library.get("process", "g.p0")
    assert isinstance(process, Process)
    return [
        f"{finding.severity} {finding.part}: {finding.message}" for finding in unreachable(process, library)
    ]


def test_a_node_to_which_nothing_leads() -> None:
    (finding,) = told(START.format("") + '<node name="a"/>')
    assert finding == "error a: node 'a' never gets a token: no arc leads to it, and it is no start node"


def test_a_circle_to_which_nothing_leads() -> None:
    first, second = told(
        START.format("") + '<node name="a"><arc to="b"/></node><node name="b"><arc to="a"/></node>'
    )
    assert first.endswith("none can come from where its arcs begin")
    assert second.startswith("error b")


@pytest.mark.parametrize(
    ("join", "stuck"), [("and", True), ("labelAnd", True), ("or", False), ("first", False)]
)
def test_a_join_that_needs_what_cannot_come(join: str, stuck: bool) -> None:
    found = told(
        START.format('<arc to="j"/>')
        + f'<node name="a"><arc to="j"/></node><node name="j" joinType="{join}"><arc to="k"/></node>'
        '<node name="k"/>'
    )
    assert any("its join" in finding and "needs one from 'a'" in finding for finding in found) is (
        join in ("and", "labelAnd")
    )
    assert len(found) == (3 if join in ("and", "labelAnd") else 1)


def test_a_join_by_name_needs_all_arcs_of_one_name() -> None:
    assert told(
        START.format('<arc to="j" name="x"/>').replace('isStart="true"', 'isStart="true" type="wait"')
        + '<node name="t" type="wait" isStart="true"><arc to="j" name="y"/></node>'
        '<node name="j" joinType="labelAnd"/>'
    ) == []  # fmt: skip


def test_arcs_of_a_node_that_completes_by_itself() -> None:
    (finding,) = told(START.format('<arc to="s" name="reject"/>'))
    assert (
        finding
        == "note s: no token leaves 's' on the arc 'reject': the node completes by itself, on other arcs"
    )
    assert (
        told(START.format('<guard>IF a THEN Skip reject ELSE Accept</guard><arc to="s" name="reject"/>'))
        == []
    )
    assert told(START.format('<guard>DELAY UNTIL now</guard><arc to="s" name="reject"/>')) == []
    waits = START.replace("isStart", 'type="wait" isStart').format('<arc to="s" name="reject"/>')
    assert told(waits) == []
    listener = Code(kind="listener", group="m", name="log", function="log")
    assert told(START.format('<arc to="s" name="reject"/>'), others=(listener,)) == []


def test_what_a_guard_never_says() -> None:
    found = told(
        START.format('<guard>IF a THEN Discard ELSE Skip x</guard><arc to="b"/>') + '<node name="b"/>'
    )
    assert [finding.partition(":")[0] for finding in found] == ["error b", "note s"]


def test_a_process_that_others_import_is_for_them_to_lead_into() -> None:
    inner = START.format("") + '<node name="a"/>'
    outer = '<node name="o" isStart="true"><arc external="e" to="a"/></node>'
    assert told(inner, outer + '<external name="e" processDefinition="p0"/>') == []
    assert told('<node name="a"/>') == []


def test_section_17_what_waits_for_an_imported_start_node_waits_for_ever() -> None:
    inner = START.format('<arc to="j"/>') + '<node name="j" joinType="labelAnd"/>'
    outer = (
        '<node name="o" isStart="true"><arc external="e" to="j"/></node><node name="done"/>'
        '<external name="e" processDefinition="p1"><arc from="j" to="done"/></external>'
    )
    (finding,) = told(outer, inner)
    assert finding.startswith("error done: ")


NAMES = st.sampled_from(["", "", "x"])


@given(st.data())
@settings(deadline=None, max_examples=examples(40))
def test_no_run_comes_where_it_is_said_that_none_can(data: st.DataObject) -> None:
    names = "abcdef"
    nodes = []
    for at, name in enumerate(names):
        later = names[at + 1 :]
        arcs = data.draw(st.lists(st.sampled_from(later), max_size=3)) if later else []
        join = data.draw(st.sampled_from(["or", "and", "labelAnd", "first"]))
        guard = data.draw(st.sampled_from(["Accept", "Accept", "Discard", "Skip", "Skip x"]))
        written = "".join(f"<arc to='{to}' name='{data.draw(NAMES)}'/>" for to in arcs)
        start = "true" if at < 2 else "false"
        nodes.append(
            f"<node name='{name}' joinType='{join}' isStart='{start}'><guard>{guard}</guard>{written}</node>"
        )
    text = "".join(nodes)
    never = {finding.split()[1].rstrip(":") for finding in told(text) if finding.startswith("error")}
    with narval.open() as agent:
        agent.load(f'<process-definition name="p0" group="g">{text}</process-definition>')
        run = agent.start("g.p0")
        agent.until_idle()
        came = {str(token["node"]) for token in agent.run(run)["tokens"]}
    assert came.isdisjoint(never)
    assert {"a", "b"} <= came


def test_the_guard_of_a_class_goes_before_the_one_that_is_written() -> None:
    gate = Code(kind="node-type", group="m", name="gate", function="Gate", hooks=frozenset({"guard"}))
    text = (
        '<node name="s" type="gate" isStart="true"><guard>Discard</guard><arc to="b"/></node><node name="b"/>'
    )
    assert told(text, others=(gate,)) == []
