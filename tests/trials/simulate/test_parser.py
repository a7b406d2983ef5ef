"""Scenarios as XML: all that may stand there, and every fault with its line and column."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from narval.core.errors import DefinitionError
from narval.core.patterns.pattern import condition
from narval.core.source.text import Source
from narval.files.home import Home
from narval.trials.simulate.parser import is_scenario, name_of, read_scenario
from narval.trials.simulate.scenario import NEVER, When
from narval.trials.simulate.simulated_home import simulated_home
from tests.trials.simulate.homes import scenario_of


def faults_of(home: Home, text: str) -> list[str]:
    with pytest.raises(DefinitionError) as caught:
        scenario_of(text, simulated_home(home))
    return [str(fault).removeprefix("scenarios/it.xml:") for fault in caught.value.faults]


def test_a_date_that_the_clock_skips_is_the_moment_right_after() -> None:
    skipped = When(date=datetime(2026, 3, 29, 2, 30))
    assert skipped.moment(0.0, ZoneInfo("Europe/Paris")) == datetime(2026, 3, 29, 1, tzinfo=UTC).timestamp()


def test_everything_that_may_stand_in_a_scenario(shop: Home) -> None:
    found = scenario_of(
        """<n:scenario at="2026-11-21" until="1d 12h" memory="now"
            xmlns:n="http://www.logilab.org/namespaces/Narval/1.2">
          <n:description>All of it.</n:description>
          <n:start recipe="shop.sell" at="+90"><order id="1"/></n:start>
          <n:arrive at="2026-11-21T09:00+01:00" every="1h" times="3"><order id="2"/></n:arrive>
          <n:arrive at="+1h" replaces="order[@id='2']"><order id="3"/></n:arrive>
          <n:outdate at="+2h" match="order[@id='3']" reason="sold out"/>
          <n:signal at="+3h" recipe="shop.sell" name="hurry" match="order"><note/></n:signal>
          <n:answer action="shop.post" recipe="shop.sell" step="post" match="bill" times="2" after="never"/>
          <n:expect at="2h"><n:run recipe="shop.sell" phase="done" least="1" most="2"/></n:expect>
        </n:scenario>""",
        simulated_home(home=shop),
    )
    assert (found.name, found.description, found.memory) == ("it", "All of it.", "now")
    assert found.at == When(date=datetime(2026, 11, 21))
    assert found.until == When(36 * 3600)
    assert found.starts[0].at == When(90)
    assert found.starts[0].elements == (b'<order id="1"/>',)
    assert (found.arrivals[0].every, found.arrivals[0].times) == (3600, 3)
    assert (
        found.arrivals[0].at.moment(0.0, None) == datetime.fromisoformat("2026-11-21T08:00+00:00").timestamp()
    )
    assert found.arrivals[0].replaces is None
    assert found.arrivals[1].replaces == condition("order[@id='2']")
    outdating, signal = found.outdatings[0], found.signals[0]
    assert (outdating.condition, outdating.at) == (condition("order[@id='3']"), When(7200))
    assert outdating.reason == "sold out"
    assert (signal.name, signal.recipe, signal.condition) == ("hurry", "shop.sell", condition("order"))
    assert signal.elements == (b"<note/>",)
    assert (found.answers[0].times, found.answers[0].after) == (2, NEVER)
    assert (found.expectations[0].at, found.expectations[0].least, found.expectations[0].most) == (
        When(7200),
        1,
        2,
    )


def test_all_faults_at_once_each_with_its_place(shop: Home) -> None:
    assert faults_of(
        shop,
        """<scenario at="tomorrow" memory="old" when="now">
  <start recipe="shop.sel"/>
  <arrive at="soon"/>
  <arrive times="2"><order/></arrive>
  <answer action="shop.posts" match="bill["/>
  <answer action="shop.post" error="lost"><receipt/></answer>
  <expect/>
  <expect>
    <element match="order[$x]" count="-1"/>
    <run recipe="shop.sell" phase="over"/>
    <call action="shop.post" count="1" least="2"/>
    <order/>
  </expect>
  <arrive replaces="order"><order/><order/></arrive>
  <outdate at="1h"/>
  <signal recipe="shop.sel" name="hurry" match="["/>
</scenario>""",
    ) == [
        "1:15: at: expected a date, such as 2026-11-21 or 2026-11-21T07:00, found 'tomorrow'",
        "1:33: memory: expected new, now or empty, found 'old'",
        "1:44: scenario has no attribute 'when'; there is 'at', 'memory', 'until'",
        "2:18: there is no definition 'shop.sel'; did you mean 'shop.sell'?",
        "3:3: arrive holds no element; write what comes within it",
        '3:15: at: expected a time after the start, such as "+2h", or a date such as 2026-11-21T07:00,'
        " found 'soon'",
        '4:18: times goes with every; add every="1d", say',
        "5:19: there is no action or transform 'shop.posts'; did you mean 'shop.post'?",
        "5:43: match is no XPath that narval can try: expected an expression, found the end",
        "6:37: an answer is elements or an error, not both; remove one",
        "7:3: expect says nothing; write element, run or call within it",
        "9:27: $x: expected no variable: a scenario has none, found 'x'",
        "9:39: count: expected a whole number of 0 or more, found '-1'",
        "10:36: phase: expected active, done, failed or cancelled, found 'over'",
        "11:37: count says how many; remove least and most",
        "12:5: unexpected element 'order' in expect; there is 'call', 'element', 'run', 'work'",
        "14:21: one element replaces another: expected one within arrive, found 2",
        "15:3: outdate needs the attribute 'match'; add match=\"…\"",
        "16:19: there is no definition 'shop.sel'; did you mean 'shop.sell'?",
        "16:50: match is no XPath that narval can try: unexpected end of source",
    ]


def test_N20_an_answer_must_be_one_that_its_action_may_give(shop: Home) -> None:
    assert faults_of(
        shop,
        """<scenario>
  <answer action="shop.post"><receipt how="mail"/></answer>
  <answer action="shop.post"/>
  <answer action="shop.orders"><order id="1"/></answer>
</scenario>""",
    ) == [
        "2:19: element receipt fits no output; declared: receipt (receipt[@how='post' and @at])",
        "3:19: output receipt (receipt[@how='post' and @at]) is missing",
        "4:19: shop.orders is a source: what it would give, let arrive; an answer can be an error alone",
    ]


def test_N7_what_arrives_must_satisfy_its_schema(shop: Home) -> None:
    schemas = shop.schemas
    schemas.mkdir()
    (schemas / "order.rng").write_text(
        '<element name="order" xmlns="http://relaxng.org/ns/structure/1.0"><attribute name="id"/></element>'
    )
    (fault,) = faults_of(shop, "<scenario><arrive><order/></arrive></scenario>")
    assert fault.startswith("1:11: refused by its schema")


def test_what_is_no_xml_or_no_scenario_is_a_fault() -> None:
    for text, place in (
        ("<scenario>", "it.xml:1:11"),
        ("<recipe/>", "it.xml:1:1: expected the root scenario"),
        ("<order/>", "is within one: <scenario><arrive><order/></arrive></scenario>"),
    ):
        with pytest.raises(DefinitionError, match=place):
            read_scenario(Source.of_text("it.xml", text))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"<scenario/>", True),
        (b"\xef\xbb\xbf<?xml version='1.0'?>\n<!-- a <recipe> -->\n<n:scenario xmlns:n='x'>", True),
        (b"<scenario at='", True),
        (b"<scenarios/>", False),
        (b"<recipe><scenario/></recipe>", False),
        (b"", False),
        (b"\x00\xff" * 100, False),
    ],
)
def test_a_scenario_is_known_by_its_first_element(data: bytes, expected: bool) -> None:
    assert is_scenario(data) is expected


def test_its_name_is_that_of_its_file() -> None:
    assert [name_of(path) for path in ("a/b.xml", "b.scenario.xml", "b.c.xml")] == ["b", "b", "b.c"]
