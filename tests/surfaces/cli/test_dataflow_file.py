"""`narval dataflow`: a file in the foreground, without a home (T20, T51)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.surfaces.cli.command_line import daemon, data, make_home, narval, well

PLAN = """\
PLAN Cheap {
  INPUT: Relation homes, Number most
  OUTPUT: cheap
  BODY {
    sprintf("price < %s", (most) : condition)
    select(condition, homes : cheap)
  }
}
"""
SESSION = """<session><value name="most">900</value><relation name="homes"><tuple>\
<price type="Number">{}</price></tuple></relation></session>"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """A file with a dataflow."""
    file = tmp_path / "homes.plan"
    file.write_text(PLAN)
    return file


def test_T21_what_is_written_as_xml_is_a_document_of_inputs(plan: Path, tmp_path: Path) -> None:
    document = tmp_path / "in.xml"
    document.write_text(f"<plan_input>{SESSION.format(700)}{SESSION.format(70)}</plan_input>")
    found = narval(plan.parent, "dataflow", str(plan), "--input", str(document), "--format", "xml")
    given = '<relation name="cheap"><tuple><price type="Number">{}</price></tuple></relation>'
    sessions = [f"<session>{given.format(price)}</session>\n" for price in (700, 70)]
    assert found.stdout == f"<plan_input>\n{''.join(sessions)}</plan_input>\n"


def test_T21_a_session_with_a_wrong_input_fails_alone(plan: Path, tmp_path: Path) -> None:
    document = tmp_path / "in.xml"
    wrong = SESSION.format(70).replace(">900<", ">x<")
    document.write_text(f"<plan_input>{SESSION.format(7)}{wrong}{SESSION.format(9)}</plan_input>")
    done = narval(plan.parent, "dataflow", str(plan), "--input", str(document), "--format", "csv")
    assert (done.exit_code, sorted(done.stdout.splitlines())) == (
        1,
        ["session 1,7", "session 3,9", "session,price", "session,price"],
    )
    why = "session 2: expected a plain number, as 1250.50, for the input most, found 'x'"
    assert done.stderr == f"narval: {plan}: {why}\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<plan_input/>", "expected a <session> for each transaction in <plan_input>, found none"),
        ("<other/>", "expected <plan_input> with a <session> for each, found <other>"),
    ],
)
def test_TA35_a_document_without_sessions_is_a_fault(plan: Path, tmp_path: Path, text: str, why: str) -> None:
    given = tmp_path / "in.xml"
    given.write_text(text)
    found = narval(plan.parent, "dataflow", str(plan), "--input", str(given))
    assert (found.exit_code, why in found.stderr) == (1, True), found.stderr


def test_a_text_that_is_no_number_is_warned_of(plan: Path, tmp_path: Path) -> None:
    plan.write_text("""PLAN P { INPUT: String page; OUTPUT: out; BODY {
      formatrelation(page, "content" : pages)
      extract(pages, "record json:@\nprice Number json:@" : out)
    } }""")
    page = '["12,50", 7, "27.00 €"]'
    found = narval(plan.parent, "dataflow", str(plan), "--set", f"page={page}", "--format", "csv")
    assert found.stdout == 'price\n""\n7\n""\n'
    told = "price of extract-1, line 3: no numbers: '12,50', '27.00 €' (2 in all)"
    assert found.stderr == f"narval: {plan}: {told}\n"
    assert found.exit_code == 0


def test_a_failure_names_its_operator_and_line(plan: Path, tmp_path: Path) -> None:
    given = tmp_path / "in.xml"
    text = SESSION.replace(' type="Number"', "").format(7)
    given.write_text(f"<plan_input>{text}</plan_input>")
    found = narval(plan.parent, "dataflow", str(plan), "--input", str(given))
    assert found.exit_code == 1
    assert found.stderr.endswith("(in select-1 of homes.Cheap, line 6)\n"), found.stderr


SEEN = """PLAN Seen { INPUT: String id; OUTPUT: TupleStream new; BODY {
  formatrelation(id, "id" : homes)
  remember("homes", "id", homes : new)
} }"""


def test_T19_T49_in_a_home_it_remembers_with_the_agent_if_it_is_to_whether_a_daemon_runs_or_not(
    tmp_path: Path,
) -> None:
    home = make_home(tmp_path / "home")
    (home / "recipes/seen.plan").write_text(SEEN)

    def new(id: str, *options: str) -> list[str]:
        file = home / "recipes/seen.plan"
        lines = well(tmp_path, "dataflow", file, "--set", f"id={id}", "--format", "csv", *options)
        return lines.splitlines()[1:]

    with daemon(home):
        assert [new("a"), new("a", "--remember"), new("a"), new("a", "--remember")] == [["a"], ["a"], [], []]
        well(home, "start", "seen.Seen", "--set", "id=b", "--wait")
        assert [new("b"), new("c", "--remember")] == [[], ["c"]]
        well(home, "stop")
    assert [new("c"), new("d"), new("d", "--remember"), new("d")] == [[], ["d"], ["d"], []]
    assert data(home, "remembered") == [{"name": "homes", "items": 4, "by": ["seen.Seen"]}]


def test_T49_a_try_that_did_not_end_well_leaves_nothing_told(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    (home / "recipes/seen.plan").write_text(
        SEEN.replace(
            ": new)",
            ': new) notify("file:news.txt", new) ENABLE: told notify("x:y", new) WAIT: told',
        )
    )
    for _ in range(2):
        found = narval(home, "dataflow", home / "recipes/seen.plan", "--set", "id=a")
        assert found.exit_code == 1
    assert (home / "news.txt").read_text().splitlines() == ['{"id":"a"}'] * 2
    assert data(home, "remembered") == []
