"""What holds of any process: the order of its file says nothing, nothing is lost, it is read again."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape, quoteattr

from hypothesis import given, settings
from hypothesis import strategies as st

from narval.core.definitions.library import Library, check_targets
from narval.core.definitions.parsing import parse
from narval.core.source.text import Source
from narval.kinds.process.language.composition import compose_all
from narval.kinds.process.language.definition import Process
from tests.examples import examples

NAMES = st.text(st.characters(codec="utf-8", categories=("L", "N", "P")), min_size=1, max_size=6)
ARC_NAMES = st.sampled_from(["", "", "reject", "Ünder", "𝒳"])
TEXTS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Zs")), max_size=8)
CUSTOM = st.dictionaries(st.sampled_from(["a", "b", "task", "task.name", "n.m.o"]), TEXTS, max_size=3)


GUARDS = st.sampled_from(
    ["Accept", "IF a THEN Skip reject ELSE Accept", "if a\nand not (b or c) then Skip // <&>\n else Discard"]
)
JOIN_TEXTS = st.sampled_from(
    ['require node "a & b" or\nrequire all arcs when first', "require at least 2 arcs"]
)


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    """Nodes by name, with their arcs as pairs of name and end."""
    names = draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    arcs = st.lists(st.tuples(ARC_NAMES, st.sampled_from(names)), max_size=5)
    return {
        name: {
            "arcs": draw(arcs),
            "start": draw(st.booleans()),
            "guard": draw(st.none() | GUARDS),
            "join": draw(st.none() | JOIN_TEXTS),
            "custom": draw(CUSTOM),
        }
        for name in names
    }


def written(graph: dict[str, dict[str, Any]], shuffle: Any, name: str = "p") -> bytes:
    """A graph as a file, in any order."""
    nodes = []
    for node, each in graph.items():
        parts = [
            f"<arc to={quoteattr(to)}" + f" name={quoteattr(arc)}" * bool(arc) + "/>"
            for arc, to in each["arcs"]
        ]
        if each["guard"] is not None:
            parts.append(f"<guard>{escape(each['guard'])}</guard>")
        if each["join"] is not None:
            parts.append(f"<join>{escape(each['join'])}</join>")
        parts.append(f"<custom>{''.join(custom(*pair) for pair in each['custom'].items())}</custom>")
        shuffle(parts)
        join = 'joinType="joinlang"' if each["join"] is not None else ""
        start = str(each["start"]).lower()
        nodes.append(f"<node name={quoteattr(node)} isStart='{start}' {join}>{''.join(parts)}</node>")
    shuffle(nodes)
    return f"<process-definition name='{name}' group='g'>{''.join(nodes)}</process-definition>".encode()


def custom(key: str, text: str) -> str:
    first, _, rest = key.partition(".")
    return f"<{first}>{custom(rest, text) if rest else escape(text)}</{first}>"


def read(data: bytes) -> Process:
    (found,) = parse(Source("recipes/p.xml", data)).checked()
    assert isinstance(found, Process)
    return found


def shape(process: Process) -> tuple[Any, ...]:
    arcs = [(arc.start.id, arc.name, arc.end.id) for arc in process.arcs]
    nodes = [
        (
            node.id,
            node.is_start,
            node.guard_text,
            node.join_text,
            sorted(node.custom),
            node.external,
            node.origin,
        )
        for node in process.nodes.values()
    ]
    return nodes, arcs, process.custom_id


@given(graphs(), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_section_13_the_order_of_a_file_says_nothing_and_nothing_is_lost(
    graph: dict[str, dict[str, Any]], chance: Any
) -> None:
    process = read(written(graph, chance.shuffle))
    assert shape(process) == shape(read(written(graph, lambda _: None)))
    assert process.nodes.keys() == graph.keys()
    given_arcs = sorted((node, *arc) for node, given in graph.items() for arc in given["arcs"])
    assert sorted((arc.start.id, arc.name, arc.end.id) for arc in process.arcs) == given_arcs
    for node in process.nodes.values():
        assert (node.guard is not None) == (graph[node.id]["guard"] is not None)
        assert (node.joinlang != ()) == (graph[node.id]["join"] is not None)
        assert node.outs == tuple(arc for arc in process.arcs if arc.start is node)
        assert node.ins == tuple(arc for arc in process.arcs if arc.end is node)


@given(graphs(), graphs(), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=examples(50))
def test_section_13_what_is_composed_is_read_again_as_it_was(
    inner: dict[str, dict[str, Any]], outer: dict[str, dict[str, Any]], chance: Any
) -> None:
    external = f"<external name='e' processDefinition='q'><arc from={quoteattr(next(iter(inner)))} "
    external += f"to={quoteattr(next(iter(outer)))}/></external><external name='f' processDefinition='q'/>"
    text = written(outer, chance.shuffle).replace(b"</process-definition>", external.encode())
    definitions, references = [], []
    for data in (text + b"</process-definition>", written(inner, chance.shuffle, "q")):
        parsed = parse(Source("recipes/p.xml", data))
        definitions += parsed.checked()
        references += parsed.references
    library, faults = compose_all(Library(definitions))
    assert [*faults, *check_targets(references, library)] == []
    found = library.get("process", "g.p")
    assert isinstance(found, Process)
    assert len(found.nodes) == len(outer) + 2 * len(inner)
    again = read(found.xml)
    assert (shape(again), again.digest) == (shape(found), found.digest)
