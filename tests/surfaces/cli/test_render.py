"""How answers are written: tables, sentences, JSON; and that nothing from outside commands a terminal."""

from __future__ import annotations

import io
import json
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from narval.ask.text import (
    clean,
    clean_lines,
    counted,
    json_bytes,
    lasted,
    moment,
    moment_exactly,
    numbers,
    shortened,
    text_of,
    xml_text,
    zone,
)
from narval.core.definitions.reading.durations import duration
from narval.surfaces.cli.history import sentence
from narval.surfaces.cli.render import answers, reasons
from narval.surfaces.cli.render.tables import ACTIONS, DEFINITIONS, RUNS, Column, elements, fields, table

HARMFUL = ["\x1b[2J", "\x9b31m", "\x07", "\x00", "\x7f", "a\u202eb", "a\u2066b", "\r"]


def test_numbers_of_very_many_elements_are_counted() -> None:
    assert numbers([3, 4, 9]) == "3, 4, 9"
    assert numbers(range(3015, 6015)) == "3,000 elements, 3015 to 6014: --json tells all"


# --- text -----------------------------------------------------------------------------------------------


@given(st.text())
def test_a_value_is_one_line_without_control_characters(text: str) -> None:
    for line in (clean(text), *clean_lines(text).split("\n")):
        assert not any(unicodedata.category(char) == "Cc" for char in line)
        assert not any(char in line for char in "\u202a\u202b\u202d\u202e\u2066\u2067\u2068")


@pytest.mark.parametrize("harmful", HARMFUL)
def test_no_control_character_reaches_a_terminal(harmful: str) -> None:
    assert not set(clean(f"x{harmful}y")) & set("\x1b\x9b\x07\x00\x7f\u202e\u2066\r")
    assert "\x1b" not in clean_lines(f"x{harmful}y")
    assert "\x9b" not in xml_text(f"<a>{harmful}</a>")


def test_control_characters_are_shown_not_dropped() -> None:
    assert clean("a\x1b[2Jb") == "a\\x1b[2Jb"
    assert clean("a\u202eb") == "a\\u202eb"
    assert clean(" two\n\twords ") == "two words"
    assert clean_lines("one\n\x1btwo") == "one\n\\x1btwo"


def test_a_password_in_a_url_is_not_shown() -> None:
    feed = '<feed url="https://me:s3cr:et@example.org/a?b=c:d@e" eid="3"/>'
    assert clean(feed) == '<feed url="https://me:…@example.org/a?b=c:d@e" eid="3"/>'
    assert clean_lines("see\nftp://a:b@c and http://x:80/y@z") == "see\nftp://a:…@c and http://x:80/y@z"


def test_xml_for_a_terminal_is_the_same_xml() -> None:
    xml = "<a t='\x9b'>é\x85 漢</a>"
    assert etree.tostring(etree.fromstring(xml_text(xml))) == etree.tostring(etree.fromstring(xml))


@given(st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_json_says_what_it_was_given_in_utf8(value: Any) -> None:
    written = json_bytes(value)
    assert json.loads(written) == value
    assert b"\x7f" not in written


def test_json_keeps_letters_and_survives_what_is_no_unicode() -> None:
    assert json_bytes("é漢") == '"é漢"'.encode()
    assert json.loads(json_bytes("caf\udce9")) == "caf\udce9"


@given(st.text(), st.integers(1, 20))
def test_a_long_value_is_shortened(text: str, most: int) -> None:
    assert len(shortened(text, most)) <= most
    if len(clean(text)) <= most:
        assert shortened(text, most) == clean(text)


def test_moments_are_local_and_lengths_have_the_units_that_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert moment("2026-11-21T08:08:33.975+01:00") == "2026-11-21 07:08:33"
    assert moment_exactly("2026-11-21T08:08:33.975+01:00") == "2026-11-21 07:08:33.975"
    assert moment(None) == moment_exactly(None) == ""
    lengths = (0.0124, 4.25, 59, 61, 3700, 90061)
    assert [duration(length) for length in lengths] == [
        "12 ms",
        "4.2 s",
        "59 s",
        "1 min 1 s",
        "1 h 1 min",
        "1 d 1 h",
    ]
    run = {"started": "2026-11-21T08:08:33.000+00:00", "ended": "2026-11-21T08:09:34.000+00:00"}
    assert lasted(run) == "1 min 1 s"
    assert lasted({**run, "ended": None}) == ""
    assert [counted(number, "fault") for number in (0, 1, 2)] == ["0 faults", "1 fault", "2 faults"]


# --- tables ---------------------------------------------------------------------------------------------


def rows_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_a_table_is_aligned_and_leaves_empty_columns_out(capsys: pytest.CaptureFixture[str]) -> None:
    columns = (
        Column("n", lambda row: row["n"], right=True),
        Column("empty", lambda row: ""),
        Column("word", lambda row: row["word"]),
    )
    table(columns, [{"n": 1, "word": "漢字"}, {"n": 200, "word": "two\nlines"}])
    assert rows_of(capsys) == ["  n  word", "  1  漢字", "200  two lines"]
    table(columns, [])
    assert rows_of(capsys) == []


class Terminal(io.StringIO):
    """What is written to a terminal."""

    def isatty(self) -> bool:
        return True


def drawn(monkeypatch: pytest.MonkeyPatch, width: int, columns: Any, rows: list[dict[str, Any]]) -> list[str]:
    """The lines of a table on a terminal of that width."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    table(columns, rows)
    return re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()).splitlines()


MOMENT = "2026-11-21T08:08:33.000+00:00"
LONG = "a long text that goes on and on " * 6
DRAWN = {
    "memory": (
        elements({}),
        {
            "eid": 483,
            "name": "note",
            "added": MOMENT,
            "origin": None,
            "outdated": False,
            "used_by": [],
            "xml": LONG,
        },
    ),
    "definitions": (
        DEFINITIONS[:2] + DEFINITIONS[5:],
        {"kind": "recipe", "name": "mail.triage", "description": LONG},
    ),
    "actions": (
        ACTIONS,
        {"name": "mail.send", "runs": "thread", "inputs": [], "outputs": [], "description": LONG},
    ),
}


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("which", DRAWN)
def test_on_a_narrow_terminal_the_last_column_gives_way_and_the_others_stay(
    monkeypatch: pytest.MonkeyPatch, which: str, width: int
) -> None:
    columns, row = DRAWN[which]
    head, line = drawn(monkeypatch, width, columns, [row])
    shown = [str(column.cell(row)) for column in columns[:-1] if column.cell(row)]
    assert all(cell in line for cell in shown)
    assert line.index(LONG[:5]) == head.index(columns[-1].title)
    assert len(line) <= width
    assert line.endswith("…") == (len(LONG) > width - line.index(LONG[:5]) or "xml" in row)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_on_a_terminal_no_column_is_lost_even_where_none_has_room(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    row = {
        "kind": "recipe", "name": "correspondence.triage", "path": "recipes/correspondence.xml", "line": 12,
        "loaded": MOMENT, "faulty": False, "active": 1, "ended": {"done": 2}, "description": LONG,
    }  # fmt: skip
    head, line = drawn(monkeypatch, width, DEFINITIONS, [row])
    assert len(re.split(r" {2,}", head)) == len(DEFINITIONS)
    assert line.startswith("recipe  corr" if width > 40 else "reci…  corr…")  # six columns in forty
    assert "  a lo" in line
    assert len(line) <= width


def test_elements_are_shown_by_the_attributes_that_count_and_nothing_is_cut_off_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole = (LONG + LONG).strip()
    mail = f'<email subject="a &lt;b> \N{EM DASH} {whole}" from="a@b" size="3"><body>x</body></email>'
    note, other = f"<note>{whole}</note>", "<email><body/></email>"
    rows = [
        {"eid": at, "added": MOMENT, "name": name, "xml": xml, "outdated": False, "used_by": []}
        for at, name, xml in ((1, "email", mail), (2, "note", note), (3, "email", other))
    ]
    table(elements({"email": ("from", "subject", "cc")}), rows)
    first, second, third = (line.partition("33  ")[2] for line in rows_of(capsys)[1:])
    assert first == f'email from="a@b" subject="a <b> \N{EM DASH} {whole}"'
    assert second == note
    assert third == other
    table(RUNS, [{**RUN, "error": {"message": whole}}])
    assert rows_of(capsys)[-1].endswith(whole)


def test_what_follows_wide_and_combining_letters_is_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    columns = (Column("word", lambda row: row[0]), Column("x", lambda row: row[1]))
    table(columns, [{0: "漢字", 1: "a"}, {0: "e\u0301te", 1: "b"}])
    assert rows_of(capsys) == ["word  x", "漢字  a", "e\u0301te   b"]


def test_fields_without_a_value_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    fields([("name", "Ann"), ("nothing", None), ("no", []), ("count", 0)])
    assert rows_of(capsys) == ["name   Ann", "count  0"]


def test_nothing_in_a_table_is_taken_for_markup(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    table((Column("word", lambda row: row[0]),), [{0: "[bold]x[/bold] :smile: \x1b[31m"}])
    assert "[bold]x[/bold] :smile: \\x1b[31m" in capsys.readouterr().out


# --- one of each ----------------------------------------------------------------------------------------

RUN = {
    "eid": 12,
    "kind": "plan",
    "name": "mail.triage",
    "state": "failed",
    "phase": "failed",
    "started": "2026-11-21T08:08:33.000+00:00",
    "ended": "2026-11-21T08:08:34.000+00:00",
    "parent": {"run": 3, "step": "sort"},
    "definition": "abc",
    "error": {"type": "timeout", "message": "too\nslow \x1b", "step": "send", "eid": 14},
    "steps": [{"id": "send", "state": "error", "target": "mail.send", "calls": ["1.1"]}],
    "transitions": [],
    "context": [9, 14],
}


def test_a_run_is_shown_with_its_error_its_caller_and_its_parts(capsys: pytest.CaptureFixture[str]) -> None:
    answers.run(RUN)
    lines = rows_of(capsys)
    assert "run         12, a plan of mail.triage" in lines
    assert "error       timeout in step send: too slow \\x1b (element 14)" in lines
    assert "parent      step sort of run 3" in lines
    assert "context     9, 14" in lines
    assert "send  error  mail.send      1" in lines


def why(**answer: Any) -> list[str]:
    return list(reasons.why({"run": 12, "state": "running", "waiting": [], **answer}))


def wait(what: str, **more: Any) -> dict[str, Any]:
    return {"id": "t", "for": what, "until": None, "conditions": [], **more}


def test_N11_why_names_the_nearest_element_the_predicate_and_the_value() -> None:
    conditions = [
        {"pattern": "a[@x='1']", "met": True, "nearest": 7, "failed": None, "value": None},
        {"pattern": "b[@y='2']", "met": False, "nearest": 8, "failed": "@y='2'", "value": "'3'"},
        {"pattern": "c", "met": False, "nearest": None, "failed": "an element named c", "value": "none"},
    ]
    assert why(waiting=[wait("condition", conditions=conditions)]) == [
        "run 12 is running and waits for 1 thing",
        "",
        "t waits for an element for each condition",
        "  met      a[@x='1']  by element 7",
        "  not met  b[@y='2']",
        "           element 8 is nearest: expected @y='2', found '3'",
        "  not met  c",
        "           expected an element named c, found none",
    ]


def test_N44_why_names_the_element_that_is_to_go() -> None:
    none = {"absent": True, "failed": None, "value": None}
    conditions = [
        {"pattern": "fire", "met": False, "nearest": 7, **none},
        {"pattern": "flood", "met": True, "nearest": None, **none},
    ]
    assert why(waiting=[wait("condition", text="nothing to fit any more", conditions=conditions)])[2:] == [
        "t waits for nothing to fit any more",
        "  not met  none fits fire",
        "           element 7 does",
        "  met      none fits flood",
    ]


def at_peer(**more: Any) -> dict[str, Any]:
    """A wait for a call at an agent of another home."""
    at = {"agent": "shop@office", "run": None, "since": None, "link": "waiting", "why": "no route", **more}
    return wait("call", calls=[{"call": "1-1", "inputs": [], "titles": {}, "at": at}])


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (wait("time", until="2026-11-21T08:00:00+00:00"), "t waits until 2026-11-21 "),
        (wait("call", text="action mail.send"), "t waits for action mail.send to come back"),
        (wait("call"), "t waits for a call to come back"),
        (wait("call", text="x", until="2026-11-21T08:00:00+00:00"), "to come back, until 2026-11-21 "),
        (wait("input", text="an element that another call has reserved"), "another call has reserved"),
        (wait("join", text="steps a (running)"), "t waits for steps a (running)"),
        (wait("signal"), "t waits to be told something"),
        (wait("person"), "t waits for a person: work to be done"),
        (wait("moon"), "t waits for moon"),
        (wait("call", runs=[15]), "  it is run 15: see `narval why 15`"),
        (wait("call", text="a {until} b"), "a {until} b"),
        (at_peer(state="there"), "  shop@office has taken it, and has not answered yet"),
        (at_peer(state="untaken", since="2026-11-21T08:00:00+00:00"), ": the link is waiting: no route"),
    ],
)
def test_each_kind_of_wait_is_a_sentence(what: dict[str, Any], said: str) -> None:
    assert any(said in line for line in why(waiting=[what])[1:])


def test_moments_of_a_sentence_are_those_of_the_home_and_those_in_texts_that_it_quotes_stay(
    capsys: pytest.CaptureFixture[str],
) -> None:
    at = "2026-03-01T07:00:00.000+00:00"
    assert (
        sentence([f"refused: {at}\n, until ", {"moment": at}, "."]) == f"refused: {at} , until {moment(at)}."
    )
    entry = {"seq": 3, "at": at, "what": f"refused: {at}", "parts": []}
    answers.replay({"whole": True, "entries": [entry], "fault": None, "more": False})
    assert capsys.readouterr().out.endswith(f"  refused: {at}\n")
    said = [f"it was withdrawn: {at}", "; ", "it ended at ", {"moment": at}]
    assert why(state="withdrawn", reason=text_of(said, str), said=said) == [
        f"run 12 (withdrawn): it was withdrawn: {at}; it ended at {moment(at)} {zone()}"
    ]
    text = f"the answer to {at}"
    assert text in why(waiting=[wait("person", text=text)])[-1]


def test_N29_why_of_a_call_that_waits_to_be_tried_again_says_when_and_what_went_wrong() -> None:
    again = "action m.a, attempt 2 of 3 after OSError: no line"
    told = why(waiting=[wait("try", until="2026-03-01T07:00:00.000+00:00", text=again)])
    assert told[-1] == f"t waits until {answers.moment_in_zone('2026-03-01T07:00:00.000+00:00')} for {again}"


def test_why_of_a_part_gives_its_reason_and_of_a_run_that_waits_for_nothing_says_so() -> None:
    assert why(state="done", reason="it is over", said=["it is over"]) == ["run 12 (done): it is over"]
    assert why() == ["run 12 is running and waits for nothing: it will go on by itself"]
    assert why(state="ready") == ["run 12 is ready and waits for nothing: it begins once a daemon runs"]
    assert "2 things" in why(waiting=[wait("call"), wait("call")])[0]


def test_history_and_log_are_one_line_each_with_their_details() -> None:
    at = "2026-11-21T08:08:33.975+00:00"
    line = answers.history_line(
        {"seq": 3, "at": at, "run": 1, "what": "Call", "step": "a\x1b", "n": [1], "t": ""}
    )
    assert line.endswith("Call              step=a\\x1b n=[1] t=''")
    assert "run=" not in line
    shown = answers.log_line(
        {"seq": 1, "at": at, "level": "error", "logger": "narval.x", "message": "one\ntwo\x1b"}
    )
    assert shown.endswith("error     narval.x  one\n    two\\x1b")


def test_what_a_run_waits_for_names_the_other_agent_that_it_calls(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"eid": 7, "name": "g.asks", "kind": "plan", "state": "running", "started": None, "ended": None}
    table(RUNS, [{**row, "waits_for": "call", "agents": ["shop"]}, {**row, "waits_for": "call"}])
    _, of_another, own = capsys.readouterr().out.splitlines()
    assert of_another.split() == ["7", "g.asks", "plan", "running", "call", "of", "shop"]
    assert own.split() == ["7", "g.asks", "plan", "running", "call"]
