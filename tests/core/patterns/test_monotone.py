"""Variables in which patterns grow: what matches by one element matches by several of them (N42)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narval.core.elements.element import Element, Tree
from narval.core.patterns.pattern import compile_pattern, condition, named_one_of

GROWING = [
    "a[@x = $v/@x]",
    "a[$v/@x != @x]",
    "a[@n > $v/@n and @x = $v[@n > 1]/@x]",
    "a[@x = $v/b[@x]/@x or @x = 'q']",
    "a[$v]",
    "a[boolean($v/b)]",
    "a[@x = ($v | $v/b)/@x]",
    "a[@x = $v/b[@x = $v/@x]/@x]",
]
OTHERS = [
    "a[not(@x = $v/@x)]",
    "a[@x = $v[1]/@x]",
    "a[@x = $v[last()]/@x]",
    "a[contains(@x, $v/@x)]",
    "a[count($v) = 1]",
    "a[@n = $v/@n + 1]",
    "a[@x = string($v/@x)]",
    "a[($v/@x = @x) = false()]",
    "a[every $y in $v satisfies $y/@x = @x]",
]


@pytest.mark.parametrize("text", GROWING)
def test_comparisons_of_nodes_grow(text: str) -> None:
    assert compile_pattern(text).shape.growing == {"v"}


@pytest.mark.parametrize("text", OTHERS)
def test_negations_counts_positions_and_single_texts_do_not(text: str) -> None:
    assert compile_pattern(text).shape.growing == frozenset()


ELEMENTS = st.builds(
    lambda x, n, inner: Element(1, f"<a x='{x}' n='{n}'>{inner}</a>".encode()),
    st.sampled_from("pq"),
    st.integers(0, 3),
    st.sampled_from(["", "<b/>", "<b x='p'/>", "<b x='q'/><b x='p'/>"]),
)


@given(st.sampled_from(GROWING), ELEMENTS, st.lists(ELEMENTS, max_size=4), ELEMENTS)
def test_what_grows_never_matches_less(
    text: str, element: Element, given: list[Element], one_more: Element
) -> None:
    asked = condition(text)
    if asked.bind({"v": given}).test(Tree(element)):
        assert asked.bind({"v": [*given, one_more]}).test(Tree(element))
        assert asked.bind({"v": [one_more, *given]}).test(Tree(element))


@pytest.mark.parametrize("names", [{"a"}, {"a", "{urn:x}b"}, set(), {"a-b.c"}])
def test_a_condition_on_names_alone(names: set[str]) -> None:
    assert named_one_of(frozenset(names)).names == names


def test_a_condition_on_no_names_takes_any() -> None:
    assert named_one_of(None).names is None
