"""The XML of automata: what is read, and each fault with its line and column (A1, A11)."""

from __future__ import annotations

from typing import Any

import pytest

from narval.core.definitions.library import Library
from narval.core.definitions.parsing import parse
from narval.core.source.text import Source
from narval.kinds.automaton.language.checks import warnings
from narval.kinds.automaton.language.definition import Automaton, Contender

GOOD = '<state name="start" command="a"/>'


def read(inside: str, head: str = "<automaton>") -> tuple[Automaton | None, list[str]]:
    parsed = parse(Source("recipes/night.xml", f"{head}\n{inside}\n</automaton>".encode()))
    faults = [f"{each.line}:{each.column} {each.message}" for each in parsed.faults]
    found: Any = parsed.definitions[0] if parsed.definitions else None
    return found, faults


def test_A1_names_in_either_case_and_the_file_names_it() -> None:
    source = Source(
        "recipes/night.xml",
        b"<AUTOMATON><STATE NAME='start' Command='sh'>echo 1</STATE>"
        b"<TRANSITION FROM='start' LABEL='1' TO='start'/></AUTOMATON>",
    )
    (found,) = parse(source).definitions
    assert isinstance(found, Automaton)
    assert found.full_name == "night.night"
    assert found.start.contenders == (Contender(("sh",), "echo 1"),)
    assert found.start.follow["1"] == (found.start,)


def test_A1_the_first_line_may_say_what_runs_the_file_and_places_stay() -> None:
    head = "#!/usr/bin/env -S narval automaton\n<?xml version='1.0'?>\n"
    text = head + "<automaton><state name='x' comand='a'/></automaton>"
    faults = parse(Source("night.xml", text.encode())).faults
    assert (3, 36) in [(each.line, each.column) for each in faults]


@pytest.mark.parametrize(
    ("inside", "fault"),
    [
        ('<state name="a" command="b"/>', "1:1 expected a state called 'start'"),
        (GOOD + GOOD, "2:47 expected a new state name, found 'start' of line 2 again"),
        ('<state name="start"/>', '2:1 a state needs command="…", target="group.name" or a COMMAND in it'),
        ('<state name="start" command="a \'b"/>', "2:30 "),
        ('<state name="start" command="a" target="g.r"/>', "a state has a command or a target, not both"),
        (
            GOOD + '<transition from="start" label="0" to="strat"/>',
            "the name of a state, found 'strat'",
        ),
        (
            '<state name="start" command="a" reaches="host {outbox/@host}"/>',
            "2:42 reaches: expected a place itself, such as host example.org:443 or folder data rw",
        ),
        (
            '<state name="start" command="a" reaches="secret [services]"/>',
            "2:42 reaches: expected a place itself",
        ),
        (
            '<state name="start" command="a" reaches="folder data"/>',
            "2:42 reaches: expected folders to have a folder and how it is used",
        ),
        (GOOD + '<transition from="start" label="256" to="start"/>', "a status from 0 to 255"),
        (GOOD + '<transition from="start" label="SIGFOO" to="start"/>', "a name such as SIGTERM"),
        (
            GOOD + '<transition from="start" label="1" to="start"/>' * 2,
            "a transition from 'start' by 1",
        ),
        (
            GOOD
            + '<state name="end" command="e"/><transition from="start" label="0" to="end"/>'
            + '<transition from="end" label="0" to="start"/>',
            "2:140 the run ends when 'end' has ended with 0; use another label, or rename the state",
        ),
        (GOOD + '<state name="b" command="c"/>', "state 'b' can never start: no transition leads to it"),
        (
            GOOD
            + '<state name="b" command="c"/><state name="c" command="c"/>'
            + '<transition from="start" label="0" to="b"/><transition from="c" label="0" to="b"/>'
            + '<transition from="b" label="0" to="c"/>',
            "state 'b' can never start: it waits for 0 of 'start' and of 'c' too",
        ),
        ('<state name="start" command="a" memory="lots"/>', "2:41 memory: expected a number of bytes"),
        ('<state name="start" command="a"><env name="A B"/></state>', "expected the name of a variable"),
        (
            '<state name="start" command="a"><after monthdays="31" months="2"/></state>',
            "2:51 this date never comes; correct monthdays or months",
        ),
        (
            '<state name="start" command="a"><after after="3d"/></state>',
            "after has no attribute 'after'; there is 'cron', 'hours', 'minutes'",
        ),
    ],
)
def test_A11_each_fault_has_its_place(inside: str, fault: str) -> None:
    _, faults = read(inside)
    assert any(fault in each for each in faults), faults


def test_A21_retries_are_those_of_a_command() -> None:
    inside = (
        '<state name="start"><command command="a" retries="2" backoff="5"/><command command="b"/></state>'
    )
    found, _ = read(inside)
    assert found is not None
    assert found.start.contenders == (Contender(("a",), "", 2, 5.0), Contender(("b",)))
    assert read(inside.replace('"2"', '"-2"'))[1] == [
        "2:51 retries: expected a whole number of 0 or more, found '-2'"
    ]


@pytest.mark.parametrize(
    ("how", "fault"),
    [
        ("", '2:1 a transition needs label="…", how the program ends, or signal="…", what interrupts it'),
        ('label="1" signal="stop"', "2:31 a transition has a label or a signal, not both; remove one"),
        ('signal="go"', "2:21 state 'start' waits for 'go' before it runs; another name must interrupt it"),
        ('signal="go on"', "2:21 signal: expected an id without blanks, found 'go on'"),
    ],
)
def test_A20_each_fault_of_a_signal_has_its_place(how: str, fault: str) -> None:
    inside = f"""<transition {how} from="start" to="start"/>
<state name="start" command="a"><wait signal="go"/></state>"""
    assert read(inside)[1] == [fault]


def test_A20_a_circle_by_way_of_a_signal_is_no_endless_one() -> None:
    inside = GOOD + '<transition from="start" {}="x" to="start"/>'
    (found, _), (other, _) = read(inside.format("signal")), read(inside.format("label").replace('"x"', '"0"'))
    assert found is not None
    assert other is not None
    assert [len(warnings([automaton], Library(()))) for automaton in (found, other)] == [0, 1]


@pytest.mark.parametrize(
    ("attributes", "fault"),
    [
        ('restart="parallel"', "1:21 restart: expected yes or no, found 'parallel'"),
        ('foo="0"', "1:17 automaton has no attribute 'foo'; correct it, or remove it"),
        ('processes="0"', "1:23 processes: expected a whole number of 1 or more, found '0'"),
        ('timeout="0"', "1:21 timeout: expected more than 0 seconds, found '0'"),
    ],
)
def test_A17_A18_A19_each_fault_of_the_root_has_its_place(attributes: str, fault: str) -> None:
    assert read(GOOD, f"<automaton {attributes}>")[1] == [fault]


@pytest.mark.parametrize(
    ("inside", "warning"),
    [
        (
            GOOD + '<state name="end" command="e"/><transition from="start" label="1" to="start"/>'
            '<transition from="start" label="0" to="end"/>',
            "start → start may go round for ever",
        ),
        (
            GOOD + '<state name="b" command="b"/><state name="end" command="e"/>'
            '<transition from="start" label="0" to="end"/><transition from="start" label="1" to="b"/>'
            '<transition from="b" label="*" to="b"/>',
            "no final state can be reached from 'b'",
        ),
        (GOOD + '<transition from="start" label="0" to="start"/>', "start → start may go round for ever"),
        (
            GOOD + '<state name="end" command="e"/><transition from="start" label="1" to="end"/>',
            "state 'start' has transitions, but none for 0",
        ),
    ],
)
def test_A11_what_may_not_be_meant_is_warned_of(inside: str, warning: str) -> None:
    found, faults = read(inside)
    assert not faults
    assert found is not None
    assert any(warning in each.message for each in warnings([found], Library()))


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("echo hi &gt; x.log 2&gt;&amp;1 &amp;&amp; false", "'>'"),
        ("sort -u in 2&gt;/dev/null", "'2>/dev/null'"),
        ("ls | wc -l", "'|'"),
        ("cd data; make", "'data;'"),
        ("rm -f out/*.o", ""),
        ("tar cf all.tar src/*.c", "'src/*.c'"),
        ("cp a $HOME/b", "'$HOME/b'"),
        ("sh -c 'echo $HOME &gt; x'", ""),
        ("find . -name '*.c' -exec rm {} ';'", ""),
        ("awk '{ print $1 &gt; 2 }' in", ""),
        ("grep 'a;b|c' in", ""),
        ("grep -c '&gt;' in.fa", ""),
        ("tr '|' ,", ""),
        ("cut -d | -f 2", ""),
        ("expr 2 * 3", ""),
        ("expr 2 &gt; 3", ""),
        ("mysql -e commit;", ""),
        ("mysql -e commit; shop", ""),
        ("psql shop commit;", ""),
        ("sleep 1 ; ls", "';'"),
        ("mysql shop &lt; all.sql", "'<'"),
        ("sort -u &gt; out", "'>'"),
    ],
)
def test_what_only_a_shell_would_read_in_a_command_is_warned_of(command: str, word: str) -> None:
    found, faults = read(f'<state name="start" command="{command}"/>')
    assert (found is not None, faults) == (True, [])
    told = [each.message for each in (found.warnings if found else ())]
    assert [f"is given {word} as it is, for no shell reads it" in each for each in told] == [True] * bool(
        word
    )


def test_A11_what_goes_on_until_it_is_stopped_is_no_mistake() -> None:
    found, _ = read(GOOD + '<transition from="start" label="*" to="start"/>')
    assert found is not None
    assert warnings([found], Library()) == []
