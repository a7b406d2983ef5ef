"""What leads somewhere in a value, and the rule that allows exactly a value (F7, F8)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from narval.core.elements.canonical import canonical
from narval.core.elements.element import Element, Tree
from narval.core.patterns.pattern import Condition
from narval.core.source.text import Source
from narval.core.trust.allowing import allowing_rules
from narval.core.trust.contents import is_free, leading_in, values_of, written
from narval.core.trust.origins import Chosen
from narval.core.trust.parts import Part
from narval.core.trust.rules import Facts, Rule, Rules, decide
from narval.files.trust_file import parse_trust
from tests.examples import examples

ASK = Rules((Rule("ask", ("*",), ("*",)),))


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        ("see https://evil.example/pay?x=1.", "link", {"https://evil.example/pay?x=1"}),
        ("see WWW.Evil.example now", "link", {"www.evil.example"}),
        ("go to evil.example/pay, e.g. at 10.30", "link", {"evil.example/pay"}),
        ("ftp://x and ex\u200bample.org", "link", {"ftp://x", "example.org"}),
        ("ｅｖｉｌ．example", "link", {"evil.example"}),
        ("evil。example/x", "link", {"evil.example/x"}),
        ("今天天气很好。我们去公园吧。AIを使う。", "link", set()),
        ("http://[2001:db8::1]/x or 192.0.2.1/y", "link", {"http://[2001:db8::1]/x", "192.0.2.1/y"}),
        ("version 1.2.3.4", "link", set()),
        ('"a b"@x.org or c@[192.0.2.1]', "address", {'"a b"@x.org', "c@[192.0.2.1"}),
        ("Dear Ann. Thank you, see you at 10:30, it was 3.50!", "link", set()),
        ("write to <Mallory@x.org>.", "address", {"mallory@x.org"}),
        ("at ann @ home", "address", set()),
        ("IBAN DE89 3704 0044 0532 0130 00.", "account", {"de89370400440532013000"}),
        ("call +49 (30) 123-45 67", "account", {"+49301234567"}),
        ("1234 5678", "account", {"12345678"}),
        ("on 2026-11-28 at 10:30, 12,345 of 99999", "account", set()),
        ("0x" + "ab" * 20, "account", {"0x" + "ab" * 20}),
    ],
)
def test_links_addresses_and_accounts_are_seen(text: str, kind: str, found: set[str]) -> None:
    assert leading_in(text, kind) == found  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["a" * 200_000, "a." * 100_000, "1 " * 100_000, "@" * 200_000, "a@" * 100_000, '"' * 200_000]
)
def test_a_long_text_takes_no_time(text: str) -> None:
    for kind in ("link", "address", "account"):
        leading_in(text, kind)  # type: ignore[arg-type]


def test_what_the_author_wrote_is_known() -> None:
    recipe = b'<recipe><step x="write to {$a/@b} at info@x.org">see www.x.org/help</step></recipe>'
    assert written(recipe, "address") == {"info@x.org"}
    assert written(recipe, "link") >= {"www.x.org/help"}


LETTER = (
    b'<letter to="ann@x.org" cc=""><body>so <b>it</b> is</body>'
    b'<at mail="b@x.org"/><at mail="c@x.org"/></letter>'
)


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("@to", ["ann@x.org"]),
        ("@bcc", []),
        ("body", ["so it is"]),
        ("at/@mail", ["b@x.org", "c@x.org"]),
        ("text()", [""]),
        ("at", ["", "b@x.org", "", "c@x.org"]),
    ],
)
def test_the_values_of_a_part(path: str, values: list[str]) -> None:
    assert list(values_of(LETTER, path)) == values


def test_the_values_of_the_whole_are_those_of_no_other_part() -> None:
    assert list(values_of(LETTER, "", ("@to", "at"))) == ["so it is", ""]


def test_words_that_a_model_chose_are_not_free_and_numbers_only_where_they_lead_nowhere() -> None:
    choices = Chosen(frozenset({"keep"}), frozenset({"7"}))
    assert [is_free(value, choices, numbers=True) for value in ("keep", " ", "7", "send")] == [
        False, False, False, True,
    ]  # fmt: skip
    assert is_free("7", choices, numbers=False)


# --- always -----------------------------------------------------------------------------------------------

names = st.sampled_from(["to", "cc", "a-b"])
texts = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Cn")), max_size=12)


@st.composite
def elements(draw: st.DrawFn) -> Element:
    root = etree.Element("letter", draw(st.dictionaries(names, texts, max_size=3)))
    root.text = draw(texts)
    for _ in range(draw(st.integers(0, 2))):
        child = etree.SubElement(
            root, draw(st.sampled_from(["body", "to"])), draw(st.dictionaries(names, texts, max_size=1))
        )
        child.text = draw(texts)
    return Element(7, canonical(etree.tostring(root, encoding="utf-8")))


paths = st.sampled_from(["", "@to", "@cc", "body", "body/@to", "text()", "to"])


@settings(max_examples=examples(60))
@given(
    elements(),
    elements(),
    paths,
    st.booleans(),
    st.lists(st.sampled_from(["mail", "model:x", "secret:s"]), min_size=1, unique=True),
)
def test_always_allows_what_is_shown_and_no_other_value(
    letter: Element, other: Element, path: str, where: bool, labels: list[str]
) -> None:
    part = Part("letter", path, where, tuple(labels), (1,))
    facts = Facts("m.send", "w.sends", (part,))
    text = allowing_rules(decide(ASK, facts), facts, {"letter": [letter]})
    if not text:
        return
    rules, faults = parse_trust(Source.of_text("x", f"[secret]\ns = 'x'\n{text}"))
    assert not faults
    assert rules is not None
    (rule,) = rules.rules
    assert rule.to is not None

    def fits(element: Element) -> bool:
        return Condition((rule.to,) if rule.to else ()).bind().test(Tree(element))

    assert fits(letter)
    assert decide(rules, facts).then == "allow"
    if fits(other):
        same = path if where else ""
        assert list(values_of(letter.xml, same)) == list(values_of(other.xml, same))


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ([b"<letter to='a'/>", b"<letter to='b'/>"], "@to"),
        ([b"<letter><body xmlns='urn:n'>a</body></letter>"], ""),
        ([b"<letter to='" + b"x" * 3_000 + b"'/>"], "@to"),
        ([b"<n:letter xmlns:n='urn:n' to='a'/>"], "@to"),
        ([b"<letter><at mail='a'/><at mail='b'/></letter>"], "at/@mail"),
        ([], "@to"),
    ],
)
def test_what_no_rule_can_say_has_none(given: list[bytes], path: str) -> None:
    facts = Facts("m.send", "w.sends", (Part("letter", path, True, ("mail",), (1,)),))
    letters = [Element(number, xml) for number, xml in enumerate(given, 1)]
    assert allowing_rules(decide(ASK, facts), facts, {"letter": letters}) == ""


def test_what_decided_needs_no_value() -> None:
    facts = Facts("m.send", "w.sends", (Part("", "", False, ("mail",), (1,)),))
    assert allowing_rules(decide(ASK, facts), facts, {}) == (
        '[[rule]]\nfrom = "mail"\npart = "whether"\naction = "m.send"\nrecipe = "w.sends"\nthen = "allow"\n'
    )
