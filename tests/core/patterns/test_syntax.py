"""The parser reads what lxml reads, or leaves it alone; it never misreads."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from lxml import etree

from narval.core.patterns.functions import check, type_of
from narval.core.patterns.syntax import (
    BinaryOperation,
    Expression,
    ExpressionError,
    Filter,
    FunctionCall,
    Literal,
    Negation,
    Path,
    parse,
    variables,
)
from tests.core.patterns.expressions import NAMESPACES, patterns
from tests.core.patterns.test_lexer import garbage
from tests.examples import examples


def shown(node: Expression) -> str:
    """A syntax tree with every grouping made plain."""
    match node:
        case BinaryOperation(operator=operator, operands=operands):
            return "(" + f" {operator} ".join(map(shown, operands)) + ")"
        case Negation(operand=operand):
            return f"-{shown(operand)}"
        case Filter(primary=primary, predicates=predicates):
            return shown(primary) + "".join(f"[{shown(predicate)}]" for predicate in predicates)
        case FunctionCall(name=name, arguments=arguments):
            return f"{name}({', '.join(map(shown, arguments))})"
        case Path(origin=origin, steps=steps):
            start = origin if isinstance(origin, str) else "" if origin is None else shown(origin) + "/"
            return start + "/".join(
                f"{step.axis}::{step.test}"
                + "".join(f"[{shown(predicate)}]" for predicate in step.predicates)
                for step in steps
            )
        case Literal(value=value):
            return repr(value)
    return str(node)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("1 - 2 - 3", "((1.0 - 2.0) - 3.0)"),
        ("1 + 2 * 3", "(1.0 + (2.0 * 3.0))"),
        ("a or b and c", "(child::a or (child::b and child::c))"),
        ("a or b or c", "(child::a or child::b or child::c)"),
        ("a = b = c", "((child::a = child::b) = child::c)"),
        ("a < b = c", "((child::a < child::b) = child::c)"),
        ("-a | b", "-(child::a | child::b)"),
        ("- - 1", "--1.0"),
        ("div div div", "(child::div div child::div)"),
        ("and and and", "(child::and and child::and)"),
        ("* * *", "(child::* * child::*)"),
        ("a//b", "child::a/descendant-or-self::node()/child::b"),
        ("//@a", "/descendant-or-self::node()/attribute::a"),
        ("/", "/"),
        ("../.", "parent::node()/self::node()"),
        ("$v/a[1]", "child::a[1.0]"),
        ("(a | b)[c]/d", "(child::a | child::b)[child::c]/child::d"),
        ("count(a, 'x')", "count(child::a, 'x')"),
        ("text()[. = 'x']", "child::text()[(self::node() = 'x')]"),
        ("p:a/p:*", "child::p:a/child::p:*"),
        ("a[b-1]", "child::a[child::b-1]"),
        ("a[b -1]", "child::a[(child::b - 1.0)]"),
    ],
)
def test_operators_bind_as_xpath_says(text: str, tree: str) -> None:
    assert shown(parse(text)).replace("Variable(name='v', start=0, end=2)/", "") == tree


@settings(max_examples=examples(80), deadline=None)
@given(text=patterns())
def test_all_that_lxml_evaluates_is_read_and_checked(text: str) -> None:
    tree = parse(text)
    check(tree, NAMESPACES)
    assert text[tree.start : tree.end] == text.strip()
    assert type_of(tree) in ("nodes", "string", "number", "boolean")
    assert variables(tree) == {name for name in ("ask", "none") if f"${name}" in text}


@settings(max_examples=examples(200), deadline=None)
@given(text=garbage)
def test_an_expression_read_and_checked_can_be_evaluated_if_lxml_compiles_it(text: str) -> None:
    try:
        xpath = etree.XPath(text, namespaces=NAMESPACES)
        tree = parse(text)
        check(tree, NAMESPACES)
    except (etree.XPathSyntaxError, ExpressionError):
        return
    xpath(etree.Element("memory"), **{name: [] for name in variables(tree)})


@pytest.mark.parametrize(
    "text", ["a]", "a[", "a b", "f(", "f(a,)", "@", "a/", "(a", "1 +", "child::", "a[]", "f(a", "." + "]"]
)
def test_a_text_that_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse(text)
