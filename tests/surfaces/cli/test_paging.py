"""`narval runs` and `narval memory`: the newest first, a page at a time, and how the next is asked for."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from lxml import etree

from tests.surfaces.cli.command_line import daemon, data, make_home, narval, well

NOTES = 120


@pytest.fixture(scope="module", params=["daemon", "alone"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home whose memory has notes of eids in order; with a daemon and without one."""
    home = make_home(tmp_path_factory.mktemp("place") / "a home")
    given = "".join(f"<note n='{number}'/>" for number in range(NOTES))
    well(home, "add", "-", given=f"<memory>{given}</memory>")
    names = "".join(f"<name>N{number}</name>" for number in range(60))
    well(home, "start", "demo.greet", "-", "--each", given=f"<memory>{names}</memory>")
    if request.param == "alone":
        yield home
        return
    with daemon(home):
        yield home


def numbers(rows: list[dict[str, str]]) -> list[int]:
    return [int(etree.fromstring(row["xml"]).get("n", "")) for row in rows]


def test_a_listing_shows_fifty_the_newest_first_and_how_to_go_on(place: Path) -> None:
    for command in (["memory", "note[@n >= 0]"], ["runs", "--kind", "plan", "--name", "demo.greet"]):
        expected = [row["eid"] for row in data(place, *command, "--limit", "all")]
        assert expected == sorted(expected, reverse=True)
        read, words, pages = list[int](), [*map(str, command)], 0
        while words:
            shown = narval(place, *words)
            lines = shown.stdout.splitlines()[1:]
            read += [int(line.split()[0]) for line in lines]
            pages += 1
            if not shown.stderr:
                break
            said, _, line = shown.stderr.strip().partition("; the next: ")
            assert said == "50 shown"
            narval_word, home_option, folder, *words = shlex.split(line)
            assert [narval_word, home_option, folder] == ["narval", "--home", str(place)]
            assert words == [*command, "--before", str(read[-1])]
        assert read == expected
        assert pages == -(-len(expected) // 50)


def test_json_is_the_same_page_as_an_array_and_nothing_is_said_beside_it(place: Path) -> None:
    shown = narval(place, "memory", "note", "--json")
    assert numbers(data(place, "memory", "note")) == list(range(NOTES - 1, NOTES - 51, -1))
    assert shown.stderr == ""
    assert len(data(place, "runs")) == 50
    assert len(data(place, "runs", "--limit", "all")) == 60


def test_the_limit_may_be_another_or_none(place: Path) -> None:
    shown = narval(place, "memory", "note", "--limit", 7)
    assert len(shown.stdout.splitlines()) == 8
    assert shown.stderr.startswith("7 shown; the next: narval --home ")
    assert " memory note --limit 7 --before " in shown.stderr
    for limit in (NOTES, NOTES + 1, "all"):
        whole = narval(place, "memory", "note", "--limit", limit)
        assert (len(whole.stdout.splitlines()), whole.stderr) == (NOTES + 1, "")
    last = data(place, "memory", "note", "--limit", "all")[-1]["eid"]
    nothing = narval(place, "memory", "note", "--before", last)
    assert (nothing.exit_code, nothing.stdout, nothing.stderr) == (1, "", "no elements\n")
    assert narval(place, "runs", "--before", 1).exit_code == 0


def test_M21_a_look_says_how_many_it_tried_and_how_to_look_further(place: Path) -> None:
    looked = narval(place, "memory", "note[@n < 3]", "--look", 20)
    assert (looked.exit_code, looked.stdout) == (1, "")
    assert looked.stderr.startswith("0 of 20 tried fit; to look further: narval --home ")
    words = shlex.split(looked.stderr)
    further = words[words.index("memory") :]
    assert further[:4] == ["memory", "note[@n < 3]", "--look", "20"]
    found = narval(place, *further[:3], 1000, *further[4:], "--json")
    assert numbers(json.loads(found.stdout)) == [2, 1, 0]
    assert found.stderr == f"3 of {NOTES - 20} tried fit\n"
    assert data(place, "memory", "--facets", "--limit", 1) == [{"name": "note", "count": NOTES}]


def test_an_export_and_a_count_have_all_of_it(place: Path) -> None:
    written = etree.fromstring(well(place, "memory", "note", "--xml"))
    assert [int(child.get("n", "")) for child in written] == list(range(NOTES))
    some = etree.fromstring(well(place, "memory", "note", "--xml", "--limit", 3))
    assert [int(child.get("n", "")) for child in some] == [NOTES - 3, NOTES - 2, NOTES - 1]
    assert well(place, "memory", "note", "--count") == f"{NOTES}\n"


def test_a_state_that_is_none_is_told_whatever_the_page(place: Path) -> None:
    refused = narval(place, "runs", "--state", "bogus", "--before", 1)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert narval(place, "runs", "--state", "failed", "--before", 1).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("runs", "--limit", "0"), "expected a number from 1, or all, got '0'"),
        (("memory", "--limit", "many"), "expected a number from 1, or all, got 'many'"),
        (("memory", "--before", "x"), "'x' is not a valid integer"),
        (("memory", "--count", "--limit", "3"), "--count counts all: it excludes --limit and --before"),
        (("memory", "--count", "--look", "3"), "--look excludes --xml and --count, which try all"),
        (("memory", "note", "--facets"), "--facets lists the names of all elements"),
    ],
)
def test_wrong_usage_is_told(place: Path, arguments: tuple[str, ...], said: str) -> None:
    refused = narval(place, *arguments)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert said in refused.stderr
