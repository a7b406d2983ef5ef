# ruff: noqa: E501
"""`narval check` of `.plan` files: all their faults at their places, and warnings (T9, TA9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.surfaces.cli.command_line import narval

FAULTY = """\
PLAN Flats {
  INPUT: String city
  OUTPUT: cheap
  BODY {
    RETRIEVE(city, "homes" : all)
    SELECT(all, "price <" : cheap)
    fetsh(city : page)
  }
}
"""
GOOD = """\
PLAN Flats {
  INPUT: String city
  OUTPUT: both
  BODY {
    retrieve("homes", city : all)
    retrieve("towns", city : towns)
    join("", all, towns : both)
  }
}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a folder for recipes."""
    (tmp_path / "recipes").mkdir()
    return tmp_path


def checked(home: Path, text: str, *options: str) -> tuple[int, list[str]]:
    (home / "recipes" / "flats.plan").write_text(text)
    done = narval(home, "check", *options)
    return done.exit_code, done.output.splitlines()


def test_T9_all_faults_of_a_file_are_told_at_once(home: Path) -> None:
    status, lines = checked(home, FAULTY)
    assert status == 1
    assert lines[:-1] == [
        'recipes/flats.plan:5:5: RETRIEVE: its arguments are in another order; write retrieve("homes", city : all)',
        'recipes/flats.plan:6:5: SELECT: its arguments are in another order; write select("price <", all : cheap)',
        "recipes/flats.plan:7:5: there is no operator or dataflow 'fetsh'; did you mean 'fetch'?",
        "recipes/flats.plan:7:18: nothing consumes 'page'; write _ in its place, or declare it as an OUTPUT",
    ]


def test_TA9_a_join_of_all_with_all_is_warned_of(home: Path) -> None:
    status, lines = checked(home, GOOD)
    assert status == 0
    assert (
        "recipes/flats.plan:7:5: warning: join: an empty condition joins each tuple with all of the other side; "
        "write union to have those of both, or a condition"
    ) in lines


def test_TA13_a_union_of_tuples_that_lack_an_attribute_is_warned_of(home: Path) -> None:
    text = """PLAN P { OUTPUT: all; BODY {
      makestream2("[{\\"name\\": \\"a\\", \\"unit\\": \\"kg\\"}]" : one)
      makestream2("[{\\"name\\": \\"b\\"}]" : other)
      union((one, other) : all)
    } }"""
    status, lines = checked(home, text)
    assert status == 0
    assert lines[0] == (
        "recipes/flats.plan:4:19: warning: union: 'other' has no unit, which is no value in its tuples; "
        "if that is not meant, project all inputs to the same attributes"
    )
