"""What people see of the tokens of a process at the command line (sections 1 and 12)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ask.processes import HEAD, nodes
from tests.surfaces.cli.command_line import data, make_home, narval, well

FAILS = """
@node_type('fails')
class Fails:
    def execute(self, token):
        raise ValueError('no')

@predicate
def broken(token):
    raise ValueError('no')
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a run of a process that has split and joined again, before it one where nodes failed."""
    home = make_home(tmp_path_factory.mktemp("tokens") / "home")
    (home / "recipes" / "w.xml").write_text(
        nodes(
            "<node name='a' isStart='true'><arc to='b'/><arc to='c'/></node>"
            "<node name='b'><arc to='d'/></node><node name='c'><arc to='d'/></node>"
            "<node name='d' type='wait' joinType='and'/>"
        )
    )
    (home / "modules" / "w.py").write_text(HEAD + FAILS)
    (home / "recipes" / "v.xml").write_text(
        nodes(
            "<node name='a' type='fails' isStart='true'/><node name='b' type='wait' isStart='true'>"
            "<guard>IF broken THEN Accept ELSE Skip</guard></node>",
            "q",
        )
    )
    (home / "recipes" / "x.xml").write_text(
        nodes("<node name='m' type='wait' isStart='true'><arc to='m'/></node>", "r")
    )
    well(home, "start", "v.q")
    well(home, "start", "w.p")
    assert narval(home, "run", "--until-idle").exit_code == 0
    return home


def test_section_12_tokens_are_listed_from_one_on(home: Path) -> None:
    run = str(data(home, "runs")[0]["eid"])
    shown = well(home, "tokens", run, "--from", "1", "--order", "depth").splitlines()
    assert shown[0].split() == ["token", "on", "state", "execution"]
    assert [" ".join(line.split()[:4]) for line in shown[1:]] == [
        "1 a complete Forward", "2 a → b", "4 b complete Forward", "5 b → d", "8 d active Forward", "3 a → c",
        "6 c complete Forward", "7 c → d",
    ]  # fmt: skip
    back = data(home, "tokens", run, "--from", "8", "--back")
    assert [row["id"] for row in back["tokens"]] == [8, 7, 6, 5, 4, 3, 2, 1]


def test_section_12_what_goes_with_from_is_refused_without_it(home: Path) -> None:
    run = str(data(home, "runs")[0]["eid"])
    for more in (["--back"], ["--order", "depth"]):
        result = narval(home, "tokens", run, *more)
        assert (result.exit_code, "go with --from TOKEN" in result.stderr) == (2, True)
    assert "has no token 99" in narval(home, "tokens", run, "--from", "99").stderr


def test_section_18_a_token_that_failed_is_told_as_such(home: Path) -> None:
    run = str(data(home, "runs")[1]["eid"])
    first, held = (row["error"] for row in data(home, "tokens", run)["tokens"])
    shown = [line.split() for line in well(home, "tokens", run).splitlines()]
    assert shown == [
        ["token", "node", "state", "guard", "execution", "error"],
        ["1", "a", "failed", "AcceptToken", "Forward", str(first)],
        ["2", "b", "held", "Forward", str(held)],
    ]
    states = {row["id"]: row["state"] for row in data(home, "show", run)["nodes"]}
    assert states == {"a": "failed", "b": "held"}
    assert f"token 1 failed: element {first} says why" in well(home, "why", run, "a")
    assert 'state="failed"' in well(home, "show", run, "--xml")
    assert well(home, "show", run, "--dot").count('"#f0a860"') >= 2


def test_several_attributes_are_set_at_once_all_or_none(home: Path) -> None:
    run = data(home, "runs", "--kind", "process")[-1]["eid"]
    assert data(home, "environment", run, "--set", "a=1", "--set", "b=2")["environment"] == {
        "a": "1",
        "b": "2",
    }
    assert data(home, "environment", run, "c=3", "--set", "b=4")["environment"] == {
        "a": "1",
        "b": "4",
        "c": "3",
    }
    assert well(home, "environment", run, "b") == "4\n"
    for line, status, said in (
        (("--set", "a=1", "--set", "a=2"), 2, "a is given twice"),
        (("a", "--set", "b=1"), 2, "expected --set alone, or a=VALUE beside it"),
        (("--set", "a"), 2, "expected NAME=VALUE"),
        (("=1",), 2, "expected NAME=VALUE"),
        (("aa",), 1, "has no attribute aa; did you mean 'a'?"),
    ):
        refused = narval(home, "environment", run, *line)
        assert refused.exit_code == status
        assert said in refused.stderr


def test_a_run_that_no_daemon_has_begun_says_so(home: Path) -> None:
    run = well(home, "start", "w.p").strip()
    for line in (("complete", run, "a"), ("backtrack", run, "a"), ("signal", run, "go")):
        refused = narval(home, *line)
        assert refused.exit_code == 1
        assert (
            f"process {run} has not begun yet: it begins when a daemon is running (narval run)"
            in refused.stderr
        )
    assert narval(home, "run", "--until-idle").exit_code == 0


def test_P14_a_token_leaves_as_a_set_whose_values_are_given_with_set(home: Path) -> None:
    run = well(home, "start", "x.r").strip()
    assert f"run {run} (created): it begins when a daemon is running" in well(home, "why", run)
    assert narval(home, "run", "--until-idle").exit_code == 0
    for token, line in (("1", ("--token-set", "s", "--set", "a=1")), ("4", ("--set", "t", "--env", "b=2"))):
        well(home, "complete", run, "--token", token, "--count", "1", *line)
        well(home, "complete", run, "--queued")
    for line in (
        ("--count", "2"),
        ("--set", "a=1"),
        ("--set", "s"),
        ("--set", "s", "--set", "t", "--count", "1"),
    ):
        assert narval(home, "complete", run, "m", *line).exit_code == 2
    refused = narval(home, "complete", run, "m", "--token-set", "s", "--count", "1", "--set", "t")
    assert (refused.exit_code, "expected NAME=VALUE, found 't'" in refused.stderr) == (2, True)
    sets = data(home, "tokens", run)["token_sets"]
    assert [(row["name"], row["environment"]) for row in sets] == [("s", {"a": "1"}), ("t", {"b": "2"})]
