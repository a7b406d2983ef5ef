"""`narval simulate`: the story by days, what it came to, JSON, exit status; `narval check` of scenarios."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from narval.files.home import Home
from tests.surfaces.cli.command_line import narval, well

GOOD = """<scenario at="2026-11-20T23:30" until="1h">
  <description>Two in one night.</description>
  <arrive at="+5m"><order id="1"/></arrive>
  <arrive at="+45m"><order id="2"/></arrive>
  <answer action="shop.post" match="bill[@of='2']" after="30s"><receipt how="post" at="two"/></answer>
  <expect><call action="shop.post" count="2"/></expect>
</scenario>"""


@pytest.fixture
def night(shop: Home) -> Path:
    """A home with a scenario."""
    folder = shop.path / "scenarios"
    folder.mkdir()
    (folder / "night.xml").write_text(GOOD)
    return shop.path


STORY = """\
night on a home on its first day, from 2026-11-20 23:30 Europe/Paris: Two in one night.

Friday 2026-11-20
  23:30:00  run 17    shop.sell starts
  23:30:00  run 17    wait: shop.nothing()
  23:35:00            18 arrives: <order id="1"/>
  23:35:00  run 17    comes takes 18
  23:35:00  run 17    price: shop.price(order 18)
  23:35:00  run 17    price: adds 19: <bill of="1"/>
  23:35:00  run 17    post: would call shop.post(bill 19), made up <receipt how="post" at="simulated"/>
  23:35:00  run 17    post: adds 20: <receipt how="post" at="simulated"/>
  23:35:00  run 17    shop.sell is done after 5 min 0 s
  23:35:00  run 21    shop.sell starts
  23:35:00  run 21    wait: shop.nothing()

Saturday 2026-11-21
  00:15:00            22 arrives: <order id="2"/>
  00:15:00  run 21    comes takes 22
  00:15:00  run 21    price: shop.price(order 22)
  00:15:00  run 21    price: adds 23: <bill of="2"/>
  00:15:00  run 21    post: would call shop.post(bill 23), answered after 30 s
  00:15:30  run 21    post: adds 24: <receipt how="post" at="two"/>
  00:15:30  run 21    shop.sell is done after 40 min 30 s
  00:15:30  run 25    shop.sell starts
  00:15:30  run 25    wait: shop.nothing()

2026-11-21 00:30, after 1 h 0 min
  runs that ended: 2 done
  would have called shop.post 1 time (answered)
  would have called shop.post 1 time (made up)
  1 run still under way:
    run 25 of shop.sell
      comes waits for an element for each condition
        not met  order[@id]
                 element 22 (order · id 2) is nearest: expected one not used before, found used by shop.sell \
comes #1 in run 21
  as expected: call shop.post, 2
"""


def test_a_story_is_told_day_by_day_in_the_zone_of_the_home(night: Path) -> None:
    for name in ("night", "night.xml", night / "scenarios" / "night.xml"):
        assert well(night, "simulate", name) == STORY


def test_a_definition_and_a_scenario_are_two_trials_and_it_says_so(night: Path) -> None:
    said = "each is a trial of its own: a scenario says itself which definitions start\n"
    both = narval(night, "simulate", "shop.sell", "night", "--brief", "--json")
    assert (len(json.loads(both.stdout)), both.stderr) == (2, said)
    assert narval(night, "simulate", "night", "night", "--brief").stderr == ""


def test_a_path_from_where_one_stands(night: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for here in (night, night.parent):  # a path of the home, as messages have it, wherever one stands
        monkeypatch.chdir(here)
        assert well(night, "simulate", "scenarios/night.xml") == STORY


def test_brief_tells_only_what_it_came_to(night: Path) -> None:
    heading, _, rest = STORY.partition("\n")
    end = rest.index("\n2026-11-21 00:30")
    assert well(night, "simulate", "--brief") == heading + "\n" + rest[end:]


def test_options_take_the_place_of_what_the_scenario_says(night: Path) -> None:
    told = narval(night, "simulate", "night", "--at", "2026-12-24T06:00", "--until", "10m", "--brief")
    assert told.exit_code == 1
    assert "from 2026-12-24 06:00" in told.stdout
    assert (
        "NOT AS EXPECTED: scenarios/night.xml:6:11: expected call shop.post 2 times, found 1" in told.stdout
    )


def test_a_definition_by_its_name(night: Path) -> None:
    told = well(night, "simulate", "shop.tell", "--until", "30d", "--brief")
    assert told.startswith("shop.tell on a copy of memory, from ")
    assert "would have called shop.tell 1 time (noted)" in told


def test_as_json(night: Path) -> None:
    one: dict[str, Any] = json.loads(well(night, "simulate", "night", "--json"))
    assert (one["scenario"], one["path"], one["memory"]) == ("night", "scenarios/night.xml", "new")
    assert (one["from"], one["until"]) == ("2026-11-20T23:30:00.000+01:00", "2026-11-21T00:30:00.000+01:00")
    assert {"action": "shop.post", "how": "answered", "count": 1} in one["calls"]
    assert one["happened"][0] == {
        "at": "2026-11-20T23:30:00.000+01:00",
        "what": "started",
        "run": 17,
        "name": "shop.sell",
        "elements": [],
        "caller": None,
        "text": "shop.sell starts",
    }
    assert [line["met"] for line in one["expected"]] == [True]
    assert one["well"] is True
    assert [report["scenario"] for report in json.loads(well(night, "simulate", "--json"))] == ["night"]


def test_what_has_no_answer_is_not_well(night: Path) -> None:
    (night / "scenarios" / "night.xml").write_text(
        '<scenario memory="empty"><start recipe="shop.wonder"><order id="1"/></start></scenario>'
    )
    result = narval(night, "simulate", "night")
    assert result.exit_code == 1
    assert re.search(r"ask: would call shop.ask\(order \d+\), and nothing says what it gives", result.stdout)
    assert '1 call without an answer: say what shop.ask gives in a scenario: <answer action="shop.ask">' in (
        result.stdout
    )


def test_wrong_names_moments_and_files(night: Path) -> None:
    unknown = narval(night, "simulate", "nigth")
    assert (unknown.exit_code, "did you mean 'night'?" in unknown.stderr) == (1, True)
    shipped = narval(night, "simulate", "examples/month")
    assert "is not in the home: narval take examples/month copies it" in shipped.stderr
    late = narval(night, "simulate", "night", "--until", "soon")
    assert (late.exit_code, "expected a time after the start" in late.stderr) == (2, True)
    assert "9999-12-30" in well(night, "simulate", "night", "--until", "99999999d", "--brief")
    (night / "scenarios" / "bad.xml").write_text('<scenario><start recipe="shop.sel"/></scenario>')
    bad = narval(night, "simulate")
    assert bad.exit_code == 1
    assert (
        "scenarios/bad.xml:1:26: there is no definition 'shop.sel'; did you mean 'shop.sell'?" in bad.stderr
    )


def test_N13_check_tells_the_faults_of_scenarios(night: Path, tmp_path: Path) -> None:
    assert narval(night, "check").exit_code == 0
    (night / "scenarios" / "bad.xml").write_text('<scenario><start recipe="shop.sel"/></scenario>')
    (night / "scenarios" / "other.xml").write_text("<other/>")
    fault = "scenarios/bad.xml:1:26: there is no definition 'shop.sel'; did you mean 'shop.sell'?\n"
    for paths in ((), (night / "scenarios",), (night / "scenarios" / "bad.xml",), (night,)):
        result = narval(night, "check", *paths)
        faults = [line for line in result.stdout.splitlines(True) if ": warning: " not in line]
        assert (result.exit_code, faults) == (1, [fault]), paths
    assert narval(night, "check", night / "scenarios" / "night.xml").exit_code == 0
    outside = tmp_path / "mine.scenario.xml"
    outside.write_text("<scenario until='x'/>")
    assert "mine.scenario.xml:1:18: until: expected" in narval(night, "check", outside).stdout


def test_nothing_from_outside_commands_the_terminal(night: Path) -> None:
    (night / "scenarios" / "night.xml").write_text(
        '<scenario until="1m"><description>a&#x9b;b</description>'
        '<arrive><order id="&#x9b;1"/></arrive></scenario>'
    )
    assert "\x9b" not in well(night, "simulate", "night")
