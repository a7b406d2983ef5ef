"""Which labels can come to what is within an element, or to a part that an action makes itself (F9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.files.test_reach import READS, recipe, taking, told, write


def test_F9_an_own_part_can_be_secret_and_is_of_no_stranger(tmp_path: Path) -> None:
    write(tmp_path, "etc/trust.toml", '[secret]\nprivate = "mail"\n')
    letter = "<arguments><letter to='{$reply/@id}' about='{$reply/@to}'/></arguments>"
    parts = told(
        tmp_path, READS, recipe("r", "a m.nothing", "reply m.reply", f"send m.send {letter}",
                                ways=taking("a", "reply", "mail")),
    ).parts("w.r", "send")  # fmt: skip
    assert parts["letter/@to"].all == {"secret:private"}
    assert parts["letter/@about"].all == {"mail", "secret:private"}


@pytest.mark.parametrize(
    "within", ["<note to='{$read}'/>", "<start-plan recipe='w.r'><note to='{$read}'/></start-plan>"]
)
def test_F9_what_is_within_a_start_plan_enters_memory_however_deep_it_is(tmp_path: Path, within: str) -> None:
    start = f"<arguments><start-plan recipe='w.r'>{within}</start-plan></arguments>"
    letter = "<arguments><letter to='{$n/@to}'/></arguments>"
    takes = recipe("r", "a m.nothing", f"send m.send {letter}", ways=taking("a", "send", "note", "n"))
    parts = told(tmp_path, READS, takes, recipe("s", "read m.read", f"on recipe:w.reads {start}"))
    assert parts.parts("w.r", "send")["letter/@to"].all == {"mail"}


def test_F9_what_is_within_a_start_plan_that_is_sent_has_all_labels_of_the_message(tmp_path: Path) -> None:
    send = """<step id="tell" type="send" to="shop"><arguments><start-plan recipe="w.r"><note to="me"/>
      </start-plan></arguments><input id="s"><match>start-plan</match></input></step></recipe>"""
    sends = recipe("s", "a m.nothing", "b m.nothing", "tell m.nothing", ways=taking("a", "b", "mail"))
    sends = sends.replace('<step id="tell" type="action" target="m.nothing"></step>', "")
    letter = "<arguments><letter to='{$n/@to}'/></arguments>"
    takes = recipe("r", "a m.nothing", f"send m.send {letter}", ways=taking("a", "send", "note", "n"))
    write(tmp_path, "agents/shop/agent.toml", "")
    write(tmp_path, "agents/shop/recipes/s.xml", takes)
    parts = told(tmp_path, READS, sends.replace("</recipe>", send)).parts("w.r", "send")
    assert parts["letter/@to"].all == {"mail"}
