"""Playing a scenario: nothing outside is called, time passes by itself, all is told and counted."""

from __future__ import annotations

import asyncio

import pytest

import narval
from narval.core.errors import DefinitionError, RequestError
from narval.files.home import Home
from narval.surfaces.cli.render.simulation import local
from narval.trials.simulate import simulation
from narval.trials.simulate.scenario import scenario_of
from narval.trials.simulate.simulated_home import simulated_home
from narval.trials.simulate.simulation import play_scenario
from tests.trials.simulate.homes import play, really_called, what

MOST_AT_ONCE = 500
"""So many runs at one moment are too many here: a tenth of what a simulation allows."""

AT = 'at="2026-11-21T08:00"'


def test_pure_actions_run_and_outside_ones_are_answered_with_the_least_their_outputs_allow(
    shop: Home,
) -> None:
    report = play(shop, f'<scenario {AT} until="1h"><arrive at="+5m"><order id="7"/></arrive></scenario>')
    assert {met.action: met.how for met in report.calls} == {
        "shop.nothing": "ran",
        "shop.price": "ran",
        "shop.post": "made up",
    }
    (posted,) = (met for met in report.calls if met.action == "shop.post")
    assert posted.gave == (b'<receipt how="post" at="simulated"/>',)
    assert posted.at == report.start + 300
    assert [given[0].attributes["of"] for _, given in posted.inputs] == ["7"]
    assert really_called(shop) == []
    assert report.well
    assert report.end == report.start + 3600


def test_answers_are_given_in_the_order_of_the_file_each_as_often_as_it_says(shop: Home) -> None:
    report = play(
        shop,
        f"""<scenario {AT} until="3h">
          <arrive at="+1h"><order id="1"/></arrive>
          <arrive at="+2h"><order id="2"/></arrive>
          <arrive at="+150m"><order id="3"/></arrive>
          <answer action="shop.post" match="bill[@of='2']" error="lost">it fell off the boat</answer>
          <answer action="shop.post" times="1" after="90s"><receipt how="post" at="one"/></answer>
          <expect at="+1h"><element match="receipt" count="0"/></expect>
          <expect at="2026-11-21T09:01:30">
            <element match="receipt[@at='one']" count="1"/>
          </expect>
          <expect>
            <element match="receipt[@at='simulated']" count="1"/>
            <element match="error[@type='lost' and contains(., 'boat')]"/>
            <run recipe="shop.sell" phase="failed" count="1"/>
            <run recipe="shop.sell" phase="done" count="2"/>
            <call action="shop.post" match="bill[@of='2']" step="post" recipe="shop.sell" count="1"/>
            <call action="shop.post" most="3" least="3"/>
          </expect>
        </scenario>""",
    )
    assert [(found.expectation.text, found.count) for found in report.unmet] == []
    assert [met.how for met in report.calls if met.action == "shop.post"] == [
        "answered",
        "answered",
        "made up",
    ]
    assert report.failed == []
    assert report.well


def test_an_expectation_that_is_not_met_says_what_was_found(shop: Home) -> None:
    report = play(
        shop, f'<scenario {AT} until="1h"><expect><element match="order" count="2"/></expect></scenario>'
    )
    assert [(found.count, found.met) for found in report.judged] == [(0, False)]
    assert not report.well


def test_what_is_expected_at_the_start_is_judged_when_all_of_that_moment_has_happened(shop: Home) -> None:
    report = play(
        shop,
        f"""<scenario {AT} until="1h">
          <arrive><order id="1"/></arrive>
          <expect at="+0"><call action="shop.post" count="1"/></expect>
        </scenario>""",
    )
    assert report.well


def test_a_run_that_failed_is_not_well_unless_it_was_expected(shop: Home) -> None:
    text = """<scenario {} until="1m"><arrive><order id="1"/></arrive>
      <answer action="shop.post" error="lost"/>{}</scenario>"""
    assert [each["name"] for each in play(shop, text.format(AT, "")).failed] == ["shop.sell"]
    expected = '<expect><run recipe="shop.sell" phase="failed"/></expect>'
    assert play(shop, text.format(AT, expected)).well


def test_N29_a_call_that_is_tried_again_is_answered_each_time(shop: Home) -> None:
    report = play(
        shop,
        f"""<scenario {AT} memory="empty" until="1h"><start recipe="shop.stubborn"/>
        <answer action="shop.tell" times="2" error="deaf"/>
        <expect><call action="shop.tell" count="3"/><run recipe="shop.stubborn" phase="done"/></expect>
        </scenario>""",
    )
    assert report.unmet == []
    assert [(met.attempt, met.how) for met in report.calls] == [
        (1, "answered"),
        (2, "answered"),
        (3, "noted"),
    ]
    told = [(line["how"], line["error"]) for line in report.lines if line["what"] == "called"]
    assert told == [("answered", "deaf"), ("answered", "deaf"), ("noted", None)]


def test_what_cannot_be_made_up_is_not_made_up(shop: Home) -> None:
    report = play(
        shop, f'<scenario {AT} until="1m"><start recipe="shop.wonder"><order id="1"/></start></scenario>'
    )
    assert [(met.action, met.how) for met in report.unanswered] == [("shop.ask", "unanswered")]
    (failed,) = report.failed
    assert '<answer action="shop.ask">' in failed["error"]
    assert really_called(shop) == []
    assert not report.well


def test_an_action_that_gives_nothing_is_noted(shop: Home) -> None:
    report = play(shop, f'<scenario {AT} until="1m"><start recipe="shop.tell"/></scenario>')
    assert [met.how for met in report.calls if met.action == "shop.tell"] == ["noted"]
    assert report.well


def test_a_source_does_not_run_and_waits_for_ever(shop: Home) -> None:
    report = play(shop, f'<scenario {AT} memory="empty" until="1d"><start recipe="shop.listen"/></scenario>')
    assert [met.how for met in report.calls] == ["source"]
    assert [answer["waiting"][0]["for"] for answer in report.waiting] == ["call"]
    assert really_called(shop) == []


@pytest.mark.parametrize("after", ["never", "2h"])
def test_N29_an_answer_that_is_too_late_is_a_timeout(shop: Home, after: str) -> None:
    report = play(
        shop,
        f"""<scenario {AT} memory="empty" until="1d"><start recipe="shop.careful"><order id="1"/></start>
        <answer action="shop.ask" after="{after}"/>
        <expect at="+59s"><run recipe="shop.careful" phase="active" count="1"/></expect>
        <expect at="+60s"><run recipe="shop.careful" phase="done" count="1"/></expect>
        <expect><element match="error[@type='timeout']" count="1"/></expect></scenario>""".replace(
            'after="2h"/>', 'after="2h"><answer of="it"/></answer>'
        ),
    )
    assert report.unmet == []
    assert report.well


def test_elements_come_again_each_day_in_the_zone_of_the_home(shop: Home) -> None:
    report = play(
        shop,
        """<scenario at="2026-10-24T12:00" until="2026-10-27T00:00">
          <arrive at="2026-10-24T20:00" every="1d"><order id="1"/></arrive>
          <arrive at="+1h" every="1h" times="2"><order id="2"/></arrive>
        </scenario>""",
    )
    # Summer time ends on the 25th: the day has 25 hours, and what comes each 24 hours comes at 19:00 then.
    assert what(report, "arrived") == [
        (3600, "arrived"),
        (7200, "arrived"),
        *((8 * 3600 + day * 86400, "arrived") for day in range(3)),
    ]
    assert report.end - report.start == (12 + 24 + 25) * 3600


def test_N4_a_scenario_begins_as_a_home_on_its_first_day_or_with_nothing(shop: Home) -> None:
    started = [line["name"] for line in play(shop, f"<scenario {AT}/>").lines if line["what"] == "started"]
    assert started == ["shop.sell"]
    assert play(shop, f'<scenario {AT} memory="empty"/>').lines == []


def test_elements_are_replaced_and_outdated_as_people_do_it(shop: Home) -> None:
    report = play(
        shop,
        f"""<scenario {AT} memory="empty" until="3h">
          <arrive><order color="red"/><order color="red" number="2"/></arrive>
          <arrive at="+1h" replaces="order"><order color="blue" number="3"/></arrive>
          <outdate at="+2h" match="order[@color='red']" reason="sold"/>
          <expect at="+1h"><element match="order" count="2"/></expect>
          <expect at="+1h"><element match="order[@number=2]" count="0"/></expect>
          <expect at="+2h">
            <element match="order" count="1"/>
            <element match="outdated[@reason='sold']" count="1"/>
          </expect>
        </scenario>""",
    )
    assert report.well
    with pytest.raises(
        RequestError, match=r"^scenarios/it\.xml:1:\d+: expected an element that fits order, found none at"
    ):
        play(shop, f'<scenario {AT}><outdate at="+1h" match="order"/></scenario>')


def test_an_end_before_the_start_is_refused(shop: Home) -> None:
    with pytest.raises(RequestError, match="until: expected a moment after the start"):
        play(shop, '<scenario at="2026-03-02T08:00" until="2026-03-01T08:00"/>')


def test_a_signal_reaches_the_runs_under_way_that_hold_what_it_is_about(shop: Home) -> None:
    (shop.path / "recipes" / "ask.xml").write_text("""\
<recipe group="shop" name="ask" start_step="ask" end_step="tell">
  <step id="ask" type="action" target="shop.nothing"/>
  <step id="tell" type="action" target="shop.tell"/>
  <transition id="told"><in idref="ask"/><out idref="tell"/>
    <condition><match>signal[@name='sell'][note]</match></condition></transition>
</recipe>""")
    text = f"""<scenario {AT} memory="empty" until="1h">
          <start recipe="shop.ask"><order id="1"/></start>
          <start recipe="shop.ask"><order id="2"/></start>
          <signal at="+1m" recipe="shop.ask" name="sell" match="order[@id=2]"><note/></signal>
          <expect><run recipe="shop.ask" phase="done" count="1"/></expect>
          <expect><run recipe="shop.ask" phase="active" count="1"/></expect>
        </scenario>"""
    assert play(shop, text).well
    with pytest.raises(
        RequestError, match=r"expected a run of shop.ask under way that fits order\[@id=3\], found"
    ):
        play(shop, text.replace("@id=2", "@id=3"))


def test_without_an_end_time_goes_on_while_something_is_due_and_a_day_at_most(shop: Home) -> None:
    assert play(shop, f"<scenario {AT}/>").end == play(shop, f"<scenario {AT}/>").start
    report = play(shop, f'<scenario {AT} memory="empty"><arrive at="+3h"><order/></arrive></scenario>')
    assert report.end == report.start + 3 * 3600


@pytest.mark.parametrize("chain", [100, 1_000_000])
def test_what_goes_on_without_end_is_stopped_and_says_why(
    shop: Home, monkeypatch: pytest.MonkeyPatch, chain: int
) -> None:
    monkeypatch.setattr(simulation, "MOST_AT_ONCE", MOST_AT_ONCE)
    (shop.path / "etc").mkdir(exist_ok=True)
    (shop.path / "etc" / "narval.toml").write_text(f"run_chain = {chain}\n")
    action = (
        '@action(outputs=[Output("{0}", "{0}")], runs="inline", pure=True)\ndef {0}():\n    return "<{0}/>"\n'
    )
    module = "from narval import Output, action\n" + action.format("ping") + action.format("pong")
    (shop.path / "modules" / "table.py").write_text(module)
    recipe = """<recipe group="table" name="{0}" start_step="wait" end_step="back" restart="yes">
      <step id="wait" type="action" target="shop.nothing"/><step id="back" type="action" target="table.{0}"/>
      <transition id="t"><in idref="wait"/><out idref="back"/>
        <condition use="yes"><match>{1}</match></condition></transition></recipe>"""
    for made, used in (("ping", "pong"), ("pong", "ping")):
        (shop.path / "recipes" / f"{made}.xml").write_text(recipe.format(made, used))
    report = play(
        shop,
        f"""<scenario {AT} memory="empty" until="1h">
          <start recipe="table.ping"><pong/></start><start recipe="table.pong"/>
        </scenario>""",
    )
    if chain > MOST_AT_ONCE:
        assert report.stopped.startswith(f"{MOST_AT_ONCE:,} runs began at one moment, the last of table.p")
    else:
        assert report.stopped.startswith("table.ping began 101 times in a row")
        assert "table.ping → table.pong → table.ping wake one another" in report.stopped
        assert len(report.runs) < 3 * chain
    assert not report.well


def test_N34_a_quit_element_ends_it(shop: Home) -> None:
    report = play(shop, f'<scenario {AT} until="1d"><arrive at="+1h"><quit/></arrive></scenario>')
    assert report.stopped == "a quit element ended it"
    assert report.end == report.start + 3600


def test_six_hours_in_which_much_happens_each_minute(shop: Home) -> None:
    report = play(
        shop,
        f"""<scenario {AT} until="6h"><arrive every="1m"><order id="1"/></arrive>
        <expect><run recipe="shop.sell" phase="done" count="361"/><call action="shop.post" count="361"/>
        </expect></scenario>""",
    )
    assert report.unmet == []


DAILY = """<recipe group="day" name="seven" start_step="wait" end_step="tell" restart="yes" decay="86400">
  <step id="wait" type="action" target="shop.nothing"/>
  <step id="tell" type="action" target="shop.tell"/>
  <transition id="morning">
    <in idref="wait"/><out idref="tell"/><time hours="7" minutes="0" seconds="0"/>
  </transition>
</recipe>"""


def test_N25_a_year_of_mornings_in_the_zone_of_the_home(shop: Home) -> None:
    (shop.recipes / "day.xml").write_text(DAILY)
    report = play(
        shop,
        """<scenario at="2026-01-01T00:00" memory="empty" until="2027-01-01T00:00"><start recipe="day.seven"/>
        <expect><call action="shop.tell" count="365"/></expect></scenario>""",
    )
    assert report.well
    told = [local(met.at, report.zone) for met in report.calls if met.action == "shop.tell"]
    assert {when.strftime("%H:%M") for when in told} == {"07:00"}


def test_a_definition_is_simulated_by_its_name(shop: Home) -> None:
    here = simulated_home(shop)
    report = asyncio.run(play_scenario(here, scenario_of("shop.tell"), 0.0))
    assert [each["name"] for each in report.runs] == ["shop.tell"]
    with pytest.raises(RequestError, match=r"no definition 'shop\.buy'"):
        asyncio.run(play_scenario(here, scenario_of("shop.buy"), 0.0))


def test_a_memory_file_with_faults_is_told(shop: Home) -> None:
    shop.memory.write_text("<memory><shop></memory>")
    with pytest.raises(DefinitionError, match=r"data/memory\.xml:1:17"):
        play(shop, f"<scenario {AT}/>")


def test_N38_a_condition_that_must_last_is_played_with_the_clock_of_the_simulation(shop: Home) -> None:
    (shop.path / "recipes/late.xml").write_text(
        """<recipe group="shop" name="late" start_step="wait" end_step="tell">
          <step id="wait" type="action" target="shop.nothing"/>
          <step id="tell" type="action" target="shop.tell"/>
          <transition id="late"><in idref="wait"/><out idref="tell"/>
            <condition for="2h"><match>order</match></condition></transition>
        </recipe>"""
    )
    report = play(
        shop,
        f"""<scenario {AT} until="4h">
          <arrive><start-plan recipe="shop.late"/></arrive>
          <arrive at="+1h"><order id="1"/></arrive>
        </scenario>""",
    )
    told = [met for met in report.calls if met.action == "shop.tell"]
    assert [met.at - report.start for met in told] == [3 * 3600]


ASKED = """<recipe group="letters" name="sort" start_step="come" end_step="sort">
  <step id="come" type="action" target="basic.nothing"/>
  <step id="sort" type="action" target="model.ask"><arguments>
    <prompt model="local" answer="sorted">Sort this letter. <field name="verdict" words="keep drop"/>
      <set name="of" value="{$letter/@from}"/><set name="by" value="model"/></prompt>
  </arguments></step>
  <transition id="came"><in idref="come"/><out idref="sort"/>
    <condition as="letter" use="yes"><match>letter</match></condition></transition>
</recipe>"""


def test_what_a_prompt_sets_is_set_on_the_answer_of_a_scenario_too() -> None:
    with narval.open() as agent:
        agent.load(ASKED)
        report = agent.simulate(
            """<scenario memory="empty" until="1h"><start recipe="letters.sort"/>
              <arrive at="+1m"><letter from="ann"/></arrive>
              <answer action="model.ask" after="5s"><sorted verdict="keep" by="me"/></answer>
              <expect><element match="sorted[@verdict='keep' and @of='ann' and @by='model']"/></expect>
            </scenario>"""
        )
    assert report["well"], report["expectations"]
