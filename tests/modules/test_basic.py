"""Basic actions, each called as the daemon calls it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

import narval
from modules import basic
from narval import Element
from narval.calls.context import CallContext
from narval.core.definitions.action.definition import DECLARATION, ActionDeclaration
from narval.core.elements.canonical import canonical
from narval.core.errors import ActionError


def element(xml: str, eid: int = 7) -> Element:
    return Element(eid, canonical(xml))


def do(function: Callable[..., Any], *arguments: Any, home: Path | None = None) -> Any:
    return CallContext("1.1", 1, "step", home).context().run(function, *arguments)


def shown(made: etree._Element) -> str:
    return canonical(made).decode()


def declared(function: Callable[..., Any]) -> ActionDeclaration:
    found: ActionDeclaration = getattr(function, DECLARATION)
    return found


def refused(function: Callable[..., Any], *arguments: Any, home: Path | None = None) -> str:
    with pytest.raises(ActionError) as caught:
        do(function, *arguments, home=home)
    return caught.value.kind


@pytest.mark.parametrize(
    "function",
    [
        basic.nothing, basic.wait_for, basic.copy, basic.collect, basic.count, basic.error, basic.stop,
        basic.start, basic.log,
    ],
)  # fmt: skip
def test_N33_what_takes_microseconds_is_answered_in_the_loop(function: Callable[..., Any]) -> None:
    assert declared(function).runs == "inline"


def test_N33_what_waits_for_the_disk_is_not() -> None:
    assert declared(basic.write_file).runs is None


def test_nothing_and_wait_for_give_nothing() -> None:
    assert do(basic.nothing) is None
    assert do(basic.wait_for, element("<email/>")) is None


def test_a_pause_ends_and_says_what_it_expected() -> None:
    assert do(asyncio.run, basic.pause(element('<pause seconds="0.01"/>'))) is None
    for seconds in ("soon", "-1", "nan", "inf", "1e6"):
        with pytest.raises(ActionError, match="seconds"):
            do(asyncio.run, basic.pause(element(f'<pause seconds="{seconds}"/>')))


def test_N1_a_copy_is_a_new_element() -> None:
    original = element('<email subject="Hi"><body>text</body><!-- kept --></email>')
    assert (
        shown(do(basic.copy, original, None)) == '<email subject="Hi"><body>text</body><!-- kept --></email>'
    )
    assert do(basic.copy, original, None).get("eid") is None


def test_a_copy_may_have_another_name_and_other_attributes() -> None:
    wish = element(
        '<copy-as name="todo"><attribute name="state" value="to do"/><attribute name="from"/>'
        '<attribute name="never-there"/></copy-as>'
    )
    made = do(basic.copy, element('<email from="a@example.org" state="new"><body/></email>'), wish)
    assert shown(made) == '<todo state="to do"><body/></todo>'
    renamed = do(
        basic.copy, element("<email a='1'/>"), element('<copy-as><attribute name="a" value=""/></copy-as>')
    )
    assert shown(renamed) == '<email a=""/>'
    kept = do(basic.copy, element('<x:a xmlns:x="urn:x"/>'), element("<copy-as/>"))
    assert kept.tag == "{urn:x}a"


@pytest.mark.parametrize("name", ["", "1st", "a b", "&lt;a", "x:y"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    wish = element(f'<copy-as><attribute name="{name}" value="1"/></copy-as>')
    assert refused(basic.copy, element("<a/>"), wish) == "bad-name"
    if name:
        assert refused(basic.copy, element("<a/>"), element(f'<copy-as name="{name}"/>')) == "bad-name"


@pytest.mark.parametrize("function", [basic.copy, basic.write_file])
def test_N16_an_argument_is_not_taken_for_the_element_it_speaks_of(function: Callable[..., Any]) -> None:
    first, second = (etree.XPath(each.match[0]) for each in declared(function).inputs)
    argument = declared(function).inputs[1].id.replace("target", "target path='a'")
    memory = etree.fromstring(f"<memory><{argument}/></memory>")
    assert not first(memory)
    assert second(memory)
    assert first(etree.fromstring("<memory><email/></memory>"))


def test_collect_keeps_the_numbers_of_the_originals() -> None:
    made = do(basic.collect, [element("<a/>", 3), element("<b>t</b>", 5)])
    assert shown(made) == '<collection count="2"><a eid="3"/><b eid="5">t</b></collection>'
    assert shown(do(basic.collect, [])) == '<collection count="0"/>'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('<counter name="mails" value="41"/>', '<counter name="mails" value="42"/>'),
        ('<counter value="5" by="-10"/>', '<counter value="-5" by="-10"/>'),
        ("<counter/>", '<counter value="1"/>'),
        ('<counter value="99999999999999999999"/>', '<counter value="100000000000000000000"/>'),
    ],
)
def test_N18_count_gives_the_next_counter_and_outdates_the_last(before: str, after: str) -> None:
    assert shown(do(basic.count, element(before))) == after
    assert declared(basic.count).inputs[0].outdates


@pytest.mark.parametrize("bad", ['value="many"', 'value="1.5"', 'value=""', 'by="x"'])
def test_count_says_which_number_is_none(bad: str) -> None:
    assert refused(basic.count, element(f"<counter {bad}/>")) == "bad-counter"


def test_N26_error_gives_an_error_element_that_no_output_declares() -> None:
    made = do(basic.error, element('<message type="closed">We are\n closed.</message>'))
    assert shown(made) == '<error type="closed"><message>We are closed.</message></error>'
    assert do(basic.error, None).get("type") == "on-purpose"
    assert declared(basic.error).outputs == ()


def test_N4_start_and_N34_stop_give_what_the_daemon_acts_on() -> None:
    made = do(basic.start, element('<start recipe="mail.triage"><email/></start>'))
    made.attrib.pop("eid", None)
    assert shown(made) == '<start-plan recipe="mail.triage"><email/></start-plan>'
    assert shown(do(basic.stop)) == "<quit/>"


def test_log_writes_one_line_whatever_the_element_holds(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "narval"):
        do(basic.log, element("<note>two\nlines \u202e \x85 end</note>"))
        do(basic.log, element("<error type='x'/>"))
        do(basic.log, element(f"<note>{'x' * 5_000}</note>"))
    assert [(record.name, record.levelname) for record in caplog.records] == [
        ("narval.basic", "INFO"),
        ("narval.basic", "ERROR"),
        ("narval.basic", "INFO"),
    ]
    assert caplog.messages[0] == '<note eid="7">two lines \ufffd end</note>'
    assert len(caplog.messages[2]) == basic.LONGEST_LINE
    assert all(message.isprintable() for message in caplog.messages)


# --- write_file -----------------------------------------------------------------------------------------


def written(home: Path, content: str, target: str) -> str:
    made = do(basic.write_file, element(content), element(target), home=home)
    path = home / made.get("path")
    assert made.get("size") == str(path.stat().st_size)
    assert canonical(made)
    return path.read_text()


def test_write_file_writes_xml_text_or_a_page(tmp_path: Path) -> None:
    page = "<html><head><title>ü</title></head><body><p>a &lt; b<br/></p><div/></body></html>"
    assert written(tmp_path, "<note a='1'>grüße</note>", '<target path="a.xml"/>') == (
        "<?xml version='1.0' encoding='utf-8'?>\n<note a=\"1\">grüße</note>\n"
    )
    assert written(tmp_path, "<note>a &lt; <b>b</b></note>", '<target path="a" as="text"/>') == "a < b"
    assert written(tmp_path, page, '<target path="pages/a.html"/>').startswith("<!DOCTYPE html>\n<html>")
    assert "<br></p><div></div>" in written(tmp_path, page, '<target path="pages/a.html"/>')
    assert written(tmp_path, page, '<target path="var/a.html"/>').startswith("<!DOCTYPE html>")
    assert "<br/></p><div/>" in written(tmp_path, page, '<target path="a" as="xml"/>')
    assert refused(
        basic.write_file, element(page), element('<target path="a" as="pdf"/>'), home=tmp_path
    ) == ("bad-target")


@pytest.mark.parametrize(
    "path",
    [
        "../a", "/etc/passwd", "", ".", "modules/a.py", "var/store.db", "etc/narval.toml",
        "agents/shop/recipes/a.xml", "data/memory.xml",
    ],
)  # fmt: skip
def test_write_file_reaches_no_further_than_the_home(tmp_path: Path, path: str) -> None:
    (tmp_path / "home").mkdir()
    target = element(f'<target path="{path}"/>')
    assert refused(basic.write_file, element("<a/>"), target, home=tmp_path / "home") == "outside"
    assert [each.name for each in tmp_path.rglob("*")] == ["home"]


def test_write_file_reaches_a_folder_that_the_target_names(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    outside = tmp_path / "public_html" / "digest.html"
    target = element(f'<target path="{outside}" folder="{tmp_path}/public_html"/>')
    do(basic.write_file, element("<html/>"), target, home=tmp_path / "home")
    assert outside.read_text().startswith("<!DOCTYPE html>")


# --- in a home ------------------------------------------------------------------------------------------

COOKBOOK = """
<cookbook group="try">
  <recipe group="try" name="all" start_step="begin" end_step="done">
    <step id="begin" type="action" target="basic.nothing"/>
    <step id="wait" type="action" target="basic.wait_for">
      <input id="element"><match>note</match></input>
    </step>
    <step id="copy" type="action" target="basic.copy">
      <arguments><copy-as name="todo"><attribute name="state" value="new"/></copy-as></arguments>
      <input id="element"><match>note</match></input>
    </step>
    <step id="count" type="action" target="basic.count"/>
    <step id="log" type="action" target="basic.log"><input id="element"><match>todo</match></input></step>
    <step id="collect" type="action" target="basic.collect">
      <input id="elements"><match>note | todo</match></input>
    </step>
    <step id="fail" type="action" target="basic.error">
      <arguments><message type="closed">not today</message></arguments>
    </step>
    <step id="start" type="action" target="basic.start">
      <arguments><start recipe="try.other"/></arguments>
    </step>
    <step id="done" type="action" target="basic.nothing"/>
    <transition id="t1"><in idref="begin"/><out idref="wait"/>
      <condition><match>note</match></condition>
    </transition>
    <transition id="t2"><in idref="wait"/><out idref="copy"/><out idref="count"/></transition>
    <transition id="t3"><in idref="copy"/><in idref="count"/><out idref="log"/></transition>
    <transition id="t4"><in idref="log"/><out idref="collect"/></transition>
    <transition id="t5"><in idref="collect"/><out idref="fail"/></transition>
    <transition id="t6"><in idref="fail" on-error="yes"/><out idref="start"/></transition>
    <transition id="t7"><in idref="start"/><out idref="done"/></transition>
  </recipe>
  <recipe group="try" name="other" start_step="only" end_step="only">
    <step id="only" type="action" target="basic.nothing"/>
  </recipe>
  <recipe group="try" name="bad" start_step="fail" end_step="fail">
    <step id="fail" type="action" target="basic.error"/>
  </recipe>
  <recipe group="try" name="stop" start_step="stop" end_step="stop">
    <step id="stop" type="action" target="basic.stop"/>
  </recipe>
</cookbook>
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "try.xml").write_text(COOKBOOK)
    return tmp_path


def test_in_a_recipe_each_does_what_it_says(home: Path) -> None:
    with narval.open(home) as agent:
        agent.add('<counter name="c" value="1"/>')
        run = agent.start("try.all")
        agent.until_idle()
        assert agent.run(run)["phase"] == "active"
        agent.add("<note>text</note>")
        assert agent.wait(run)["phase"] == "done"
        agent.until_idle()
        [note], [task] = agent.memory("note"), agent.memory("todo")
        assert task.xml == b'<todo state="new">text</todo>'
        assert [each.attributes["value"] for each in agent.memory("counter", current=True)] == ["2"]
        [collection] = agent.memory("collection")
        assert {int(each.get("eid", "")) for each in collection.tree()} <= {note.eid, task.eid}
        assert [each.attributes["type"] for each in agent.memory("error")] == ["closed"]
        assert [each["phase"] for each in agent.runs(name="try.other")] == ["done"]


def test_N26_an_error_on_purpose_ends_a_plan_that_does_not_handle_it(home: Path) -> None:
    with narval.open(home) as agent:
        run = agent.start("try.bad")
        assert agent.wait(run)["phase"] == "failed"
        assert any(each.attributes["type"] == "on-purpose" for each in agent.memory("error"))


def test_N34_stop_puts_a_quit_into_memory(home: Path) -> None:
    with narval.open(home) as agent:
        agent.start("try.stop")
        agent.until_idle()
        assert len(agent.memory("quit")) == 1
