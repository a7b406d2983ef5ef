"""The pytest plugin collects scenarios, and no other XML."""

from __future__ import annotations

import re

import pytest

from tests.places import ROOT
from tests.trials.simulate.homes import make_shop

pytest_plugins = ["pytester"]

GOOD = '<scenario><arrive><order id="1"/></arrive><expect><element match="receipt"/></expect></scenario>'


@pytest.fixture
def inner(pytester: pytest.Pytester) -> pytest.Pytester:
    """A home with a good scenario, as the folder in which pytest is called."""
    make_shop(pytester.path / "home")
    write(pytester, "home/scenarios/good.xml", GOOD)
    return pytester


def write(pytester: pytest.Pytester, path: str, text: str) -> None:
    file = pytester.path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_each_scenario_is_a_test_and_other_files_are_none(inner: pytest.Pytester) -> None:
    write(inner, "home/scenarios/deep/er.xml", GOOD)
    write(inner, "home/more/night.scenario.xml", GOOD)
    write(inner, "home/scenarios/other.xml", "<other/>")
    write(inner, "home/more/plain.xml", GOOD)
    write(inner, "home/other.scenario.xml", "<other/>")
    result = inner.runpytest("-v")
    result.assert_outcomes(passed=3)
    assert sorted(re.findall(r"(\S+)::(\S+) PASSED", result.stdout.str())) == [
        ("home/more/night.scenario.xml", "night"),
        ("home/scenarios/deep/er.xml", "er"),
        ("home/scenarios/good.xml", "good"),
    ]


def test_one_that_fails_shows_its_story_and_what_was_expected(inner: pytest.Pytester) -> None:
    write(inner, "home/scenarios/good.xml", GOOD.replace('"receipt"', '"receipt" count="2"'))
    result = inner.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*good*",
            '*arrives: <order id="1"/>',
            "*post: would call shop.post(bill *), made up <receipt *",
            "*NOT AS EXPECTED: scenarios/good.xml:1:*: expected element receipt 2 times, found 1",
            "FAILED home/scenarios/good.xml::good - expected element rec*",
        ]
    )
    assert "Traceback" not in result.stdout.str()
    assert "runtest" not in result.stdout.str()


BREAKS = """from narval import action

@action(runs="inline", pure=True)
def sort():
    raise ValueError("there is no paper")
"""
FAILS = """<cookbook group="w">
  <recipe name="sort" start_step="s" end_step="s"><step id="s" type="action" target="w.sort"/></recipe>
  <recipe name="tell" start_step="s" end_step="s">
    <step id="s" type="action" target="shop.tell"/></recipe>
</cookbook>
"""


def test_one_whose_run_failed_names_the_file_and_the_line_where_its_error_arose(
    inner: pytest.Pytester,
) -> None:
    write(inner, "home/modules/w.py", BREAKS)
    write(inner, "home/recipes/w.xml", FAILS)
    given = "<answer action='shop.tell' error='no-line'>nobody there</answer>"
    starts = "<start recipe='w.sort'/><start recipe='w.tell'/>"
    write(inner, "home/scenarios/good.xml", f"<scenario memory='empty'>{starts}{given}</scenario>")
    result = inner.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*failed: run * of w.sort: ValueError: there is no paper (modules/w.py:5)",
            "*failed: run * of w.tell: no-line: nobody there (recipes/w.xml:4)",
        ]
    )


def test_one_with_faults_shows_them_all(inner: pytest.Pytester) -> None:
    write(inner, "home/scenarios/good.xml", '<scenario until="x"><start recipe="y"/></scenario>')
    result = inner.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["scenarios/good.xml:1:18: until: expected*", "scenarios/good.xml:1:*'y'*"])


def test_one_that_lies_in_no_home_needs_one_named(inner: pytest.Pytester) -> None:
    write(inner, "apart/night.scenario.xml", GOOD)
    result = inner.runpytest("apart")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*lies in no home; name one: narval_home in the settings of pytest"])
    inner.makeini("[pytest]\nnarval_home = home\n")
    inner.runpytest("apart").assert_outcomes(passed=1)


def test_the_scenarios_that_ship_are_collected_with_the_tests() -> None:
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'testpaths = ["tests", "scenarios"]' in settings
    assert sorted(path.stem for path in (ROOT / "scenarios").glob("*.xml")) == ["digest", "triage"]
