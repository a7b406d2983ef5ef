"""Patterns: those accepted, the elements they match, and explanations of those they do not."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narval.core.elements.canonical import canonical
from narval.core.elements.element import Element, Tree
from narval.core.errors import PatternError
from narval.core.patterns.pattern import Bound, Condition, Mismatch, compile_pattern, condition
from tests.core.patterns.expressions import NAMESPACES, Oracle, elements, patterns
from tests.examples import examples
from tests.places import ROOT

MAIL = (
    "<email subject='Ho' size='5' from='a@example.org'>"
    "<part type='text'>hello</part><part type='image'/>"
    "</email>"
)


def tree(xml: str, eid: int = 0) -> Tree:
    return Tree(Element(eid, xml.encode()))


def matches(pattern: str, xml: str = MAIL, **variables: list[Element]) -> bool:
    return condition(pattern).bind(variables).test(tree(xml))


def why(pattern: str, xml: str = MAIL, **variables: list[Element]) -> Mismatch | None:
    return condition(pattern).bind(variables).explain(tree(xml))


def refused(pattern: str, namespaces: dict[str, str] | None = None) -> PatternError:
    with pytest.raises(PatternError) as caught:
        compile_pattern(pattern, namespaces)
    return caught.value


# --- N9: what matches -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern",
    [
        "email",
        "email[@subject='Ho']",
        "/memory/email",
        "//part",
        ".//part[@type='image']",
        "email/part/@type",
        "email/@subject",
        "email[part='hello']",
        "count(email/part)",
        "count(email/part) - 1",
        "string(email/@subject)",
        "email/@size > 4",
        "*[self::email]",
        "email | note",
        "'x'",
        "-1",
        ".",
    ],
)
def test_N9_true_a_node_set_a_string_or_a_number_matches(pattern: str) -> None:
    assert matches(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "note",
        "email[@subject='Hi']",
        "/email",
        "email/@nothing",
        "count(note)",
        "count(email) - 1",
        "number(email/@subject)",
        "0 div 0",
        "string(email/@nothing)",
        "''",
        "false()",
        "email[part='bye']",
        "email[2]",
    ],
)
def test_N9_false_nothing_zero_and_not_a_number_do_not_match(pattern: str) -> None:
    assert not matches(pattern)


def test_N9_an_attribute_that_is_empty_is_there() -> None:
    assert matches("email/@subject", "<email subject=''/>")
    assert matches("email[@subject='']", "<email subject=''/>")
    assert not matches("email[@subject='']", "<email/>")


def test_N9_all_patterns_of_a_condition_hold_of_the_same_element() -> None:
    both = condition("email[@subject='Ho']", "email[@size > 3]").bind()
    assert both.test(tree(MAIL))
    assert not both.test(tree("<email subject='Ho' size='2'/>"))
    assert not condition("email", "note").bind().test(tree(MAIL))
    assert condition().bind().test(tree(MAIL))


def test_N1_the_number_of_an_element_can_be_matched() -> None:
    assert condition("email[@eid = 7]").bind().test(tree(MAIL, eid=7))


@settings(max_examples=examples(100), deadline=None)
@given(
    texts=st.lists(patterns(), min_size=1, max_size=3),
    asked=st.lists(elements(), max_size=2),
    element=elements(),
)
def test_N9_a_condition_matches_as_by_lxml_and_explains_where_it_does_not(
    texts: list[str], asked: list[Element], element: Element
) -> None:
    variables = {"ask": asked, "none": []}
    bound = condition(*texts, namespaces=NAMESPACES).bind(variables)
    found = Tree(element)
    holds = Oracle(texts, variables).holds(found)
    assert bound.test(found) == holds
    mismatch = bound.explain(found)
    assert (mismatch is None) == holds
    assert mismatch is None or mismatch.satisfied <= bound.most_satisfied()
    assert any(key.tag in (None, found.root.tag) for key in bound.alternatives()) or not holds


@pytest.mark.parametrize(
    ("texts", "most"),
    [
        (["email"], 0),
        (["email[@size]"], 1),
        (["email[@size and @subject='Hi']"], 2),
        (["email[@size][part[@type='image']]"], 3),
        (["email[@size] | note[@from][@to]"], 2),
        (["email[@size]", "email[@subject='Hi']"], 3),
        (["count(email/part) = 3"], 0),
        (["email[not(@size)]"], 1),
        (["email[2]"], 1),
    ],
)
def test_N11_the_most_that_an_element_can_satisfy_of_a_pattern_that_it_does_not_fit(
    texts: list[str], most: int
) -> None:
    assert condition(*texts).bind({}).most_satisfied() == most


# --- N10: XPath 3.1 and variables -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "holds"),
    [
        ("email[matches(@subject, '^H')]", True),
        ("email[lower-case(@subject) = 'ho']", True),
        ("email[ends-with(@from, '@example.org')]", True),
        ("email[@subject = ('Hi', 'Ho')]", True),
        ("email[@subject eq 'Hi']", False),
        ("some $part in email/part satisfies $part/@type = 'image'", True),
        ("email/@subject ! upper-case(.) = 'HO'", True),
        ("if (email) then email/@size > 9 else true()", False),
        ("email['it''s' = @subject]", False),
        ("email[@size > 3] (: a comment :)", True),
        ("()", False),
        ("email/name()", True),
        ("1 to 3", False),
    ],
)
def test_N10_a_pattern_that_xpath_1_cannot_express_is_xpath_3(pattern: str, holds: bool) -> None:
    assert compile_pattern(pattern).shape.xpath3
    assert matches(pattern) is holds


def test_N10_a_pattern_that_xpath_1_can_express_is_xpath_1() -> None:
    assert not compile_pattern("email[contains(@subject, 'H')]").shape.xpath3


def test_N10_a_pattern_that_cannot_be_evaluated_does_not_match_and_explains_why() -> None:
    pattern = "email[xs:integer(@subject) > 3]"
    assert not matches(pattern)
    mismatch = why(pattern)
    assert mismatch is not None
    assert mismatch.value.startswith("error: ")


def test_N10_xpath_3_is_imported_only_for_patterns_that_need_it() -> None:
    code = (
        "import sys; from narval.core.patterns.pattern import condition; condition('email[@a > 3]').bind();"
        "assert 'elementpath' not in sys.modules; condition('email[matches(@a, \"x\")]');"
        "assert 'elementpath' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_N10_a_variable_stands_for_elements() -> None:
    asked = [Element(1, b"<email message-id='m1' subject='?'/>"), Element(2, b"<email message-id='m2'/>")]
    pattern = "email[@in-reply-to = $ask/@message-id]"
    assert compile_pattern(pattern).variables == {"ask"}
    assert matches(pattern, "<email in-reply-to='m2'/>", ask=asked)
    assert not matches(pattern, "<email in-reply-to='m3'/>", ask=asked)
    assert not matches(pattern, "<email in-reply-to=''/>", ask=[])
    assert not matches(pattern, "<email in-reply-to='m1'/>")


def test_N10_a_variable_works_in_xpath_3_too() -> None:
    asked = [Element(1, b"<email message-id='m1'/>")]
    pattern = "email[exists(@in-reply-to) and @in-reply-to = $ask/@message-id]"
    assert compile_pattern(pattern).variables == {"ask"}
    assert matches(pattern, "<email in-reply-to='m1'/>", ask=asked)
    assert not matches(pattern, "<email in-reply-to='m2'/>", ask=asked)


@pytest.mark.parametrize("name", ["ask", "wait-answer", "step.2", "context", "self", "Ä", "a_b"])
def test_N10_a_variable_has_the_name_of_a_step(name: str) -> None:
    asked = [Element(1, b"<email m='1'/>")]
    for pattern in (f"email[@r = ${name}/@m]", f"email[exists(.) and @r = ${name}/@m]"):
        assert compile_pattern(pattern).variables == {name}
        assert condition(pattern).bind({name: asked}).test(tree("<email r='1'/>"))


def test_N10_variables_bound_in_the_pattern_are_its_own() -> None:
    pattern = "for $x in email, $y in $x/part return (let $z := $y return $z/@type = $ask/@type)"
    assert compile_pattern(pattern).variables == {"ask"}


def test_N10_a_variable_is_never_taken_for_a_lifted_literal() -> None:
    asked = [Element(1, b"<email m='1'/>")]
    pattern = "email[@r = $_s0/@m and @a = 'x']"
    assert compile_pattern(pattern).variables == {"_s0"}
    assert condition(pattern).bind({"_s0": asked}).test(tree("<email r='1' a='x'/>"))


# --- N11: why not ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "predicate", "value", "satisfied"),
    [
        ("email[@subject = 'Hi' and @size > 10]", "@subject = 'Hi'", "'Ho'", 1),
        ("email[@subject='Ho' and @size > 10]", "@size > 10", "'5'", 2),
        ("email[@subject='Ho'][@size > 10]", "@size > 10", "'5'", 2),
        ("email[@to='x']", "@to='x'", "absent", 1),
        ("email[@to]", "@to", "absent", 1),
        ("note", "note", "<email>", 0),
        ("note[@a='x']", "note", "<email>", 0),
        ("/memory/note", "note", "<email>", 1),
        ("note | article", "note | article", "<email>", 0),
        ("email[not(@subject)]", "not(@subject)", "'Ho'", 1),
        ("email[not(@subject = 'Ho')]", "not(@subject = 'Ho')", "'Ho'", 1),
        ("email[starts-with(@subject, 'Re:')]", "starts-with(@subject, 'Re:')", "'Ho'", 1),
        ("email[contains(@to, 'x')]", "contains(@to, 'x')", "absent", 1),
        ("email[number(@size) > 10]", "number(@size) > 10", "5", 1),
        ("email[number(@subject) > 10]", "number(@subject) > 10", "'Ho'", 1),
        ("email[string-length(@subject) > 5]", "string-length(@subject) > 5", "2", 1),
        ("email[count(part) > 3]", "count(part) > 3", "2", 1),
        ("email[@size * 2 > 100]", "@size * 2 > 100", "10", 1),
        ("email/part[@type='video']", "@type='video'", "'text'", 2),
        ("email/part[@type='image' and . = 'x']", ". = 'x'", "<part>", 3),
        ("email[part/@kind = 'x']", "part/@kind = 'x'", "absent", 1),
        ("email[body/@kind = 'x']", "body", "absent", 1),
        ("email/part/@kind", "@kind", "absent", 2),
        ("email[part = 'bye']", "part = 'bye'", "'hello', <part>", 1),
        ("email[@a='1' or @b='2']", "@a='1' or @b='2'", "absent", 1),
        ("email[@size='5' and @a or @size='6' and @b]", "@a", "absent", 2),
        ("email[2]", "2", "1 there", 1),
        ("email[part[3]]", "3", "2 there", 2),
        ("email/part[position() = 3]", "position() = 3", "2 there", 2),
        ("(email | note)[@to]", "@to", "absent", 1),
        ("//attachment", "attachment", "absent", 0),
        ("count(email/part) = 7", "count(email/part) = 7", "2", 0),
        ("false()", "false()", "false", 0),
        ("boolean(note)", "note", "<email>", 0),
        ("email[@size > part/@type]", "@size > part/@type", "'5' and 'text', 'image'", 1),
        ("email[matches(@subject, '^Re')]", "matches(@subject, '^Re')", "'Ho'", 1),
        ("email[@size > 3 and lower-case(@subject) = 'hi']", "lower-case(@subject) = 'hi'", "'ho'", 2),
        ("email ! (@size > 7)", "email ! (@size > 7)", "<email>", 0),
    ],
)
def test_N11_an_explanation_is_the_first_predicate_that_failed_and_its_value(
    pattern: str, predicate: str, value: str, satisfied: int
) -> None:
    assert why(pattern) == Mismatch(predicate, value, satisfied)


def test_N11_the_value_of_a_variable_is_shown() -> None:
    asked = [Element(1, b"<email message-id='m1'/>")]
    pattern = "email[@in-reply-to = $ask/@message-id]"
    mismatch = why(pattern, "<email in-reply-to='m2'/>", ask=asked)
    assert mismatch == Mismatch("@in-reply-to = $ask/@message-id", "'m2', where $ask/@message-id is 'm1'", 1)


def test_N11_an_element_that_matches_has_no_explanation() -> None:
    assert why("email[@subject='Ho']") is None


def test_N11_the_nearest_element_has_most_satisfied() -> None:
    bound = condition("email[@folder='in'][@size > 3 and @from]", "email[@to]").bind()
    worst, better, best = (
        bound.explain(tree(xml))
        for xml in ("<note/>", "<email folder='in' size='1'/>", "<email folder='in' size='9' from='a'/>")
    )
    assert worst is not None
    assert better is not None
    assert best is not None
    assert worst.satisfied < better.satisfied < best.satisfied
    assert best.predicate == "@to"


def test_N11_long_values_are_cut_and_many_are_counted() -> None:
    mismatch = why("email[@subject='x']", f"<email subject='{'y' * 500}'/>")
    assert mismatch is not None
    assert len(mismatch.value) < 100
    assert why("email[part='x']", "<email>" + "<part>y</part>" * 9 + "</email>") == Mismatch(
        "part='x'", "'y', 'y', 'y', … (9 in all)", 1
    )


# --- refusals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "column", "message"),
    [
        ("", 1, "found nothing"),
        ("   ", 1, "found nothing"),
        ("email[@subject='Hi'", 20, "expected ']', found the end"),
        ("email]", 6, "found ']'"),
        ("email[@a=", 10, "expected an expression, found the end"),
        ("email['a", 7, "a string that is not closed"),
        ("email[1 2]", 9, "found '2'"),
        ("email[contain(@a, 'b')]", 7, "did you mean contains()?"),
        ("nothing()", 1, "unknown function nothing()"),
        ("email[count(1, 2)]", 7, "count() takes one argument, found 2"),
        ("email[starts-with(@a)]", 7, "starts-with() takes 2 arguments, found 1"),
        ("email[position(1)]", 7, "takes no argument"),
        ("x:email", 2, "'x' is not declared"),
        ("email/@x:a", 9, "'x' is not declared"),
        ("$a:b", 3, "'a' is not declared"),
        ("email[@a='\x00']", 11, "a character that XML does not have"),
        ("email[doc('file:///etc/passwd')]", 7, "a pattern reads no files"),
        ("email[unparsed-text('x')]", 7, "a pattern reads no files"),
        ("email[environment-variable('HOME')]", 7, "does not read the environment"),
        ("email[current-date() > @d]", 7, "a pattern reads no clock"),
        ("let $f := doc#1 return $f('x')", 14, "a pattern makes no functions"),
        ("email[function($x) { doc($x) }('x')]", 7, "a pattern makes no functions"),
        ("email[parse-xml(@body)]", 7, "a pattern parses no XML"),
        ("email[matches(@a, @b)]", 19, "is to be written as a string"),
        ("email[@a => matches('(a+)+')]", 10, "in the parentheses"),
        ("email[matches(@a, '[')]", 20, "a class that is not closed"),
        ("email[matches(@a, '(a+)\\1')]", 24, "cannot refer back to a group"),
        ("email[matches(@a, 'it''s \\b')]", 26, "unknown escape \\b"),
        ("email[replace(@a, '(a|aa)+', 'b$') = 'x']", 32, "expected $ with a digit"),
        ("email[replace(@a, 'a*', 'b') = 'x']", 20, "matches no letter"),
        ("email[analyze-string(@a, 'a')]", 7, "a pattern makes no elements"),
        ("email[for-each(@a, name#1)]", 15, "for-each() is not for patterns"),
        ("email[round(1, -1000000000)]", 7, "round() takes one argument"),
        ("email[format-integer(1, 'w')]", 7, "format-integer() is not for patterns"),
        (".5 // a/b", 1, "a path goes on from nodes"),
        ("'x' / a", 1, "a path goes on from nodes"),
        ("email[(1, 2) / a]", 7, "a path goes on from nodes"),
        ("email[lower-case(@a) // b]", 7, "a path goes on from nodes"),
    ],
)
def test_a_text_that_is_neither_xpath_1_nor_3_is_refused_with_its_column(
    pattern: str, column: int, message: str
) -> None:
    error = refused(pattern)
    assert message in error.message
    assert error.column == column


def test_a_declared_prefix_is_accepted_and_only_those_used_are_kept() -> None:
    pattern = compile_pattern(
        "p:email[@p:a = 'x' and @xml:lang = 'en']", {"p": "urn:p", "q": "urn:q", "": "urn:none"}
    )
    assert pattern.namespaces == {"p": "urn:p"}
    assert pattern.shape.names == {"{urn:p}email"}


@pytest.mark.parametrize("text", ["position() = 1", "last() = 1", "(note | email)[2] or not(last() = 2)"])
def test_a_position_outside_predicates_is_for_xpath_3_since_lxml_knows_none(text: str) -> None:
    assert condition(text).patterns[0].shape.xpath3
    assert condition(text).bind({}).test(Tree(Element(1, b"<email/>")))


def test_an_expression_that_lxml_refuses_on_evaluation_is_refused_when_it_is_read() -> None:
    for pattern in (
        "email[foo(@a)]",
        "email[false() and foo(@a)]",
        "email[x:a]",
        "email[current()]",
        "key('a', 'b')",
    ):
        refused(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "(" * 5000 + "1" + ")" * 5000,
        "email" + "[a" * 5000 + "]" * 5000,
        "not(" * 3000 + "@a" + ")" * 3000,
        "a" * 30_000,
        "1" + "+1" * 5000,
        "email[1" + " || 1" * 3000 + "]",
        "if (a) then b else " * 300 + "c",
        "email" + " ! ." * 3000,
        "- " * 4000 + " xs:integer(1)",
        "for $x in a return " * 500 + "b",
        "email[matches(@a, '" + "(" * 3000 + ")" * 3000 + "')]",
        "[" * 10_000,
        "'" * 9_999,
        "/" * 10_000,
    ],
    ids=lambda pattern: pattern[:20],
)
def test_a_hostile_pattern_is_refused_and_nothing_worse(pattern: str) -> None:
    assert refused(pattern).column >= 1


@pytest.mark.parametrize(
    "pattern",
    [
        "email[" + " or ".join(f"@a='v{n}'" for n in range(1000)) + "]",
        "email" + "".join(f"[not(@a{n})]" for n in range(1000)),
        "email" + "".join(f"[@a{n} or not(@b{n})]" for n in range(800)),
        "email[" + "-" * 10_000 + "1]",
        "email[not(" * 20 + "@missing" + ")]" * 20,
        "email[@a='" + "x" * 15_000 + "' or not(@a)]",
        "email[concat(" + ", ".join(["'a'"] * 2000) + ") != @a or not(@a)]",
    ],
    ids=lambda pattern: pattern[:20],
)
def test_a_long_pattern_works_as_a_short_one(pattern: str) -> None:
    bound = condition(pattern).bind()
    found = tree("<email a='v7'/>")
    assert bound.test(found) == Oracle([pattern], {}).holds(found)
    assert (bound.explain(found) is None) == bound.test(found)


# --- keys and names -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("email", {"email"}),
        ("email[@a]/part | note", {"email", "note"}),
        ("/memory/email[@a='x']", {"email"}),
        ("./email", {"email"}),
        ("email[matches(@a, 'x')]", {"email"}),
        ("email/name()", {"email"}),
        ("email/@a eq 'x' and true()", {"email"}),
        ("*[self::email or self::note]", {"email", "note"}),
        ("email and note", set()),
        ("//email", None),
        ("*[@a]", None),
        ("not(email)", None),
        ("if (email) then 1 else 0", None),
    ],
)
def test_the_names_a_pattern_can_match_are_known(pattern: str, names: set[str] | None) -> None:
    assert compile_pattern(pattern).shape.names == names
    assert condition(pattern).names == names


def test_the_equalities_of_a_condition_are_keys_for_a_lookup() -> None:
    bound = condition("email[@folder='in' and @size > 3]", "email[@seen='no' or @flagged='yes']").bind()
    assert bound.names == {"email"}
    assert bound.keys is not None
    assert [(key.tag, key.eq, key.exact) for key in bound.keys] == [
        ("email", {("folder", "in"), ("seen", "no")}, True),
        ("email", {("folder", "in"), ("flagged", "yes")}, True),
    ]
    assert condition("//part").bind().keys is None
    assert condition("email[false()]").bind().keys == ()


@pytest.mark.parametrize(
    "pattern",
    [
        "fail[@host = 'a'][@at ge '5']",
        "fail[@host eq 'a' and @at lt '5']",
        "fail[@host = 'a'][xs:date(@at) - xs:date('2026-11-30') le xs:dayTimeDuration('P1D')]",
    ],
)
def test_beside_a_comparison_of_values_an_equality_is_a_key(pattern: str) -> None:
    keys = condition(pattern).bind().keys
    assert keys is not None
    assert [(key.tag, key.eq, key.exact) for key in keys] == [("fail", {("host", "a")}, False)]


@pytest.mark.parametrize(
    "pattern", ["fail/@at gt '5'", "fail/@at ne @host", "/memory/fail/@at le '5' and fail/@host ge 'a'"]
)
def test_a_comparison_of_values_at_the_top_names_the_root(pattern: str) -> None:
    assert condition(pattern).names == {"fail"}


def test_N10_a_variable_is_resolved_into_a_key_for_each_value() -> None:
    asked = [Element(n, f"<email message-id='m{n % 2}'/>".encode()) for n in (1, 2, 3)]
    keys = condition("email[@in-reply-to = $ask/@message-id]").bind({"ask": asked}).keys
    assert keys is not None
    assert [key.eq for key in keys] == [{("in-reply-to", "m0")}, {("in-reply-to", "m1")}]


# --- identity and storage -------------------------------------------------------------------------------


def test_bound_conditions_are_equal_by_content() -> None:
    asked, other = [Element(1, b"<q m='1'/>")], [Element(2, b"<q m='1'/>")]
    pattern = "email[@r = $ask/@m]"
    first, same = (condition(pattern).bind({"ask": list(asked), "unused": other}) for _ in range(2))
    assert first == same
    assert hash(first) == hash(same)
    assert first != condition(pattern).bind({"ask": other})
    assert first != condition(pattern).bind()
    assert first != condition(pattern, "email").bind({"ask": asked})
    assert condition("p:a", namespaces={"p": "urn:1"}) != condition("p:a", namespaces={"p": "urn:2"})
    assert condition("a", namespaces={"p": "urn:1"}) == condition("a")
    assert {first: 1}[same] == 1


def test_a_bound_condition_survives_storage_as_plain_data() -> None:
    asked = [Element(4, b"<q m='1'/>"), Element(9, b"<q m='2'/>")]
    memory = {element.eid: element for element in asked}
    bound = condition("p:email[@r = $ask/@m]", "*[@a='x']", namespaces=NAMESPACES).bind({"ask": asked})
    plain = bound.plain()
    assert plain["variables"] == {"ask": [4, 9]}
    assert Bound.from_plain(plain, memory.get) == bound
    del memory[4]
    assert Bound.from_plain(plain, memory.get) != bound


def test_patterns_and_conditions_are_shown_by_their_text() -> None:
    assert "email[@a]" in repr(compile_pattern("email[@a]"))
    assert condition("email[@a]", "note").bind().text == "email[@a] and note"
    assert "note" in repr(condition("note"))
    assert "note" in repr(condition("note").bind())


def test_the_same_text_gives_the_same_pattern() -> None:
    assert compile_pattern("email[@a='same']") is compile_pattern("email[@a='same']")


def test_a_condition_is_made_of_patterns_from_anywhere() -> None:
    pattern = compile_pattern("email[@a=$x/@b]")
    both = Condition((pattern, compile_pattern("email[@c=$y/@d]")))
    assert both.variables == {"x", "y"}
    assert both.names == {"email"}


# --- the page -------------------------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "reference" / "patterns.md").read_text(encoding="utf-8")
EXAMPLE = Tree(Element(7, canonical(PAGE.split("```xml\n")[1].split("```")[0])))


def table(heading: str) -> list[list[str]]:
    """The rows of the table under a heading, without the marks around code."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [
        [cell.strip().strip("`").replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        for row in rows
    ]


@pytest.mark.parametrize(("pattern", "answer"), [row[:2] for row in table("What matches")])
def test_the_patterns_that_the_page_says_match_do(pattern: str, answer: str) -> None:
    assert condition(pattern).bind().test(EXAMPLE) is {"yes": True, "no": False}[answer]


@pytest.mark.parametrize(("pattern", "fault"), table("What is wrong with a pattern"))
def test_the_faults_are_those_on_the_page(pattern: str, fault: str) -> None:
    assert refused(pattern).message == fault


@pytest.mark.parametrize(("pattern", "predicate", "value"), table("Why it does not match"))
def test_the_explanations_are_those_on_the_page(pattern: str, predicate: str, value: str) -> None:
    assert (mismatch := condition(pattern).bind().explain(EXAMPLE)) is not None
    assert mismatch[:2] == (predicate, value)
