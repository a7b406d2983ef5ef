"""Random patterns and elements, and an oracle of lxml alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st
from lxml import etree

from narval.core.elements.element import Element, Tree

NAMESPACES = {"p": "urn:p"}
TAGS = ("email", "note", "p:email")
ATTRIBUTES = ("a", "b", "size", "p:a")
VALUES = ("x", "y", "", "10", "9.5", " 10 ", "1e1", "-1", "+1", "NaN", "10.000000000000001", "Re: x", "é")
NUMBERS = (
    "10",
    "9.5",
    "0",
    "-1",
    "1e1",
    "10.0",
    ".5",
    "007",
    "100000000000000001",
    "0.1",
    "10.000000000000001",
)

literals = st.one_of(
    st.sampled_from(VALUES).flatmap(lambda value: st.sampled_from((f"'{value}'", f'"{value}"'))),
    st.sampled_from(NUMBERS),
    st.sampled_from(NUMBERS).map("({})".format),
)
closed = st.one_of(
    literals,
    literals,
    st.sampled_from(
        (
            "$ask/@a",
            "$ask/b",
            "$ask",
            "$none/@a",
            "string($ask/@a)",
            "$ask[@a = 'x']/@b",
            "$ask/../email/@b",
            "count($ask)",
            "concat('x', '')",
            "5 + 5",
            "-(1)",
            "number('10')",
            "number('x')",
            "true()",
        )
    ),
)
fields = st.one_of(
    st.sampled_from(ATTRIBUTES).map("@{}".format),
    st.sampled_from(ATTRIBUTES).map("@{}".format),
    st.sampled_from(("b", "b/c", "b/@a", ".//c", "*", "@*", "text()", "b/text()", "*/@a", "b//c", ".")),
    st.sampled_from(("b[@a = 'x']", "b[1]/@a", "./@a", "self::node()/@a", "../email/@a", "/memory/email/@a")),
)
operators = st.sampled_from(("=", "=", "=", "!=", "<", "<=", ">", ">="))


def _brief(strategy: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """The same strategy, in a wrapper whose description is short: hypothesis writes it out otherwise."""

    @st.composite
    def drawn(draw: st.DrawFn) -> str:
        return draw(strategy)

    return drawn()


def compared(left: st.SearchStrategy[str], right: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """A comparison, either way round."""
    return st.one_of(
        st.builds("{} {} {}".format, left, operators, right),
        st.builds("{} {} {}".format, right, operators, left),
    )


atoms = _brief(
    st.one_of(
        compared(fields, closed),
        compared(fields, closed),
        compared(fields.map("number({})".format), closed),
        fields,
        st.builds("{}({}, {})".format, st.sampled_from(("contains", "starts-with")), fields, closed),
        compared(fields, fields),
        st.sampled_from(
            (
                "1",
                "2",
                "position() = 1",
                "last() = 1",
                "count(b) > 0",
                "count(b)",
                "string-length(@a) > 1",
                "true()",
                "false()",
                "'x'",
                "''",
                "$ask",
                "$none",
                "name() = 'email'",
                "self::email",
                "self::p:*",
                "self::note[@a]",
                "lang('en')",
                "normalize-space(@a) = 'x'",
                "@a + 1 > 5",
                "not(1 - 1)",
            )
        ),
    )
)

predicates = _brief(
    st.recursive(
        atoms,
        lambda inner: st.one_of(
            st.builds("{} and {}".format, inner, inner),
            st.builds("{} or {}".format, inner, inner),
            inner.map("not({})".format),
            inner.map("({})".format),
            inner.map("boolean({})".format),
        ),
        max_leaves=4,
    )
)
_heads = st.one_of(
    st.sampled_from((*TAGS, "*", "node()", "p:*")),
    st.builds(
        str.format,
        st.sampled_from(("/memory/{}", "/*/{}", "//{}", ".//{}", "./{}", "child::{}", "descendant::{}")),
        st.sampled_from((*TAGS, "*")),
    ),
)
_tails = st.sampled_from(
    ("",) * 6 + ("/b", "/@a", "/b[@a = 'x']", "/b/c", "/text()", "/@*", "/b/@a", "/..", "/.")
)
paths = _brief(
    st.builds(
        lambda head, filters, tail: head + "".join(f"[{text}]" for text in filters) + tail,
        _heads,
        st.lists(predicates, max_size=2),
        _tails,
    )
)
_patterns = st.recursive(
    st.one_of(
        paths,
        paths,
        compared(paths, closed),
        compared(paths.map("number({})".format), closed),
        st.builds("contains({}, {})".format, paths, closed),
        st.builds("({} | {})[{}]".format, paths, paths, predicates),
        st.builds("({})/{}".format, paths, st.sampled_from(("@a", "b"))),
    ),
    lambda inner: st.one_of(
        st.builds("{} or {}".format, inner, inner),
        st.builds("{} and {}".format, inner, inner),
        st.builds("{} | {}".format, paths, paths),
        inner.map("not({})".format),
        inner.map("({})".format),
    ),
    max_leaves=3,
)


@st.composite
def patterns(draw: st.DrawFn) -> str:
    """XPath 1.0 of the kinds that people write, and of kinds that they should not."""
    return draw(_patterns)


xpath3_atoms = st.one_of(
    st.builds("matches({}, 'x')".format, fields),
    st.builds("lower-case({}) = 'x'".format, fields),
    st.builds("ends-with(@a, {})".format, literals),
    st.builds("exists({})".format, fields),
    st.sampled_from(
        (
            "@a = ('x', 'y')",
            "some $v in @* satisfies $v = 'x'",
            "@a eq 'x'",
            "string-length(@a) gt 1",
            "if (@a) then @b else @size",
            "@a => upper-case() = 'X'",
            "@* ! (. = 'x')",
            "xs:integer(@size) > 9",
            "@a = $ask/@a and exists(.)",
        )
    ),
    st.builds("{} and exists(.)".format, atoms),
    st.builds("{} or ends-with(@b, 'x')".format, atoms),
)
_xpath3_patterns = st.builds(
    lambda head, first, second, tail: f"{head}[{first}][{second}]{tail}", _heads, xpath3_atoms, atoms, _tails
)


@st.composite
def xpath3_patterns(draw: st.DrawFn) -> str:
    """Patterns that only XPath 3.1 can express; not each can be evaluated on every element."""
    return draw(_xpath3_patterns)


@st.composite
def elements(draw: st.DrawFn, eid: int = 0) -> Element:
    """A small element."""
    return Element(eid, etree.tostring(draw(_roots()), encoding="utf-8"))


@st.composite
def _roots(draw: st.DrawFn, depth: int = 0) -> etree._Element:
    tag = draw(st.sampled_from(TAGS if depth == 0 else ("b", "c", "email", "note")))
    root = etree.Element(clark(tag), nsmap=NAMESPACES)
    for name, value in draw(st.dictionaries(st.sampled_from(ATTRIBUTES), st.sampled_from(VALUES))).items():
        root.set(clark(name), value)
    root.text = draw(st.sampled_from(("", "x", "10")))
    if depth < 2:
        for child in draw(st.lists(_roots(depth + 1), max_size=2)):
            root.append(child)
    return root


def clark(name: str) -> str:
    """A name as lxml writes it."""
    prefix, colon, local = name.partition(":")
    return f"{{{NAMESPACES[prefix]}}}{local}" if colon else name


class Oracle:
    """Patterns by lxml alone, which compiles each as it is and evaluates it on every element."""

    def __init__(self, texts: Iterable[str], variables: Mapping[str, Sequence[Element]]) -> None:
        self._xpaths = [etree.XPath(text, namespaces=NAMESPACES) for text in texts]
        self._nodes = {name: [Tree(element).root for element in found] for name, found in variables.items()}

    def holds(self, tree: Tree) -> bool:
        """True if all hold of an element (N9)."""
        return all(_is_true(xpath(tree.context, **self._nodes)) for xpath in self._xpaths)


def _is_true(result: Any) -> bool:
    return bool(result) and result == result
