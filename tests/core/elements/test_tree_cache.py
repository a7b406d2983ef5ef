"""The cache of trees: bounded by number and by bytes."""

from __future__ import annotations

from narval.core.elements.element import Element
from narval.core.memory.packed import TreeCache


def test_a_tree_is_parsed_once_while_it_is_kept() -> None:
    trees, element = TreeCache(), Element(1, b"<a/>")
    assert trees.of(element) is trees.of(element)
    trees.drop(1)
    trees.drop(1)
    assert trees.of(element) is trees.of(element)


def test_an_element_without_a_number_is_not_kept() -> None:
    trees = TreeCache()
    assert trees.of(Element(0, b"<a/>")).root.tag == "a"
    assert trees.of(Element(0, b"<b/>")).root.tag == "b"


def test_the_trees_looked_at_last_stay() -> None:
    trees = TreeCache(most=4)
    first, second, third, *others = (Element(n, b"<a/>") for n in range(1, 7))
    kept, gone = trees.of(first), trees.of(second)
    trees.of(third)
    assert trees.of(first) is kept
    for element in others:
        trees.of(element)
        assert trees.of(first) is kept
    assert trees.of(second) is not gone


def test_the_trees_kept_are_bounded_by_their_size() -> None:
    trees = TreeCache(most_bytes=1000)
    small = [Element(n, b"<a>" + b"x" * 90 + b"</a>") for n in range(1, 30)]
    first = trees.of(small[0])
    for element in small:
        trees.of(element)
    assert trees.of(small[0]) is not first
    assert trees.of(small[-1]) is trees.of(small[-1])
    huge = Element(99, b"<a>" + b"x" * 500 + b"</a>")
    assert trees.of(huge) is not trees.of(huge)
