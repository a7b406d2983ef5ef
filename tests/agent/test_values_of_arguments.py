"""Values in arguments, as a home uses them: functions, dates and lengths, $each, what is repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from narval.files.check import check_home
from narval.files.explore import explore_home
from narval.files.home import Home
from narval.surfaces.python.agent import Agent
from tests.daemon.home_in_time import HomeInTime

MODULE = """
from narval import Input, Output, action

@action(runs="inline", inputs=[Input("bill", "bill")], outputs=[Output("sent", "sent-bill")])
def send(bill):
    return f"<sent-bill>{bill.text.strip()} by {bill.attributes['due']}</sent-bill>"

@action(
    runs="inline",
    inputs=[Input("bill", "bill"), Input("text", "text")],
    outputs=[Output("reminder", "reminder")],
)
def remind(bill, text):
    return f"<reminder of='{bill.attributes['id']}'>{text.text}</reminder>"

@action(runs="inline", inputs=[Input("digest", "digest")], outputs=[Output("post", "post")])
def post(digest):
    return "<post>" + "; ".join(" ".join(line.itertext()) for line in digest.tree()) + "</post>"
"""

BILL = """<recipe group="desk" name="bill" start_step="wait" end_step="send">
  <step id="wait" type="action" target="basic.nothing"/>
  <transition id="came"><in idref="wait"/><out idref="send"/>
    <condition as="o" use="yes"><match>order</match></condition></transition>
  <step id="send" type="action" target="desk.send"><arguments>
    <bill due="{date-add($now/@date, '14d')}" ref="{concat(substring($o/@id, 1, 2), '-', $now/@time)}">
      <total>{sum($o/item/@price)}</total>
    </bill>
  </arguments></step>
</recipe>"""

REMIND = """<recipe group="desk" name="late" start_step="remind" end_step="remind">
  <step id="remind" type="action" target="desk.remind" foreach="bill[@state='open']"><arguments>
    <text>{$each/@id} is {days-between($each/@due, $now/@date, 'mon-fri')} working days late</text>
  </arguments></step>
</recipe>"""

DIGEST = """<recipe group="desk" name="digest" start_step="wait" end_step="post">
  <step id="wait" type="action" target="basic.nothing"/>
  <transition id="seven"><in idref="wait"/><out idref="post"/>
    <time cron="0 7 * * mon-fri"/>
    <condition as="mails" list="yes"><match>mail</match></condition></transition>
  <step id="post" type="action" target="desk.post"><arguments>
    <digest>
      <line foreach="$m in $mails">{$m/@from}: {$m/@subject}<file foreach="$f in $m/file">{$f}</file></line>
    <line>that is all, {count($mails)}</line></digest>
  </arguments></step>
</recipe>"""


ANSWERED = """<recipe group="desk" name="told" start_step="wait" end_step="post">
  <step id="wait" type="action" target="basic.nothing"/>
  <transition id="came"><in idref="wait"/><out idref="post"/>
    <condition as="o" use="yes"><match>order</match></condition></transition>
  <step id="post" type="action" target="desk.post"><arguments><digest>
    <line>{string-join($o/item/@name, ', ')} after {time-between($o/@at, $now)}</line>
    <line>{if(count($o/item) > 1, 'in parts', 'in one')}</line>
  </digest></arguments></step>
</recipe>"""


@pytest.fixture
def at(tmp_path: Path) -> HomeInTime:
    return HomeInTime(tmp_path, "2026-03-02T10:00:00Z", {"modules/desk.py": MODULE}, "Europe/Paris")


def texts(agent: Agent, name: str) -> list[str]:
    return [element.text or "" for element in agent.memory(name)]


def test_N42_names_are_joined_a_time_told_and_a_word_chosen(at: HomeInTime) -> None:
    at.write("recipes/desk.xml", ANSWERED)
    with at.open() as agent:
        agent.start("desk.told")
        agent.add("<order at='2026-03-02T08:30'><item name='ink'/><item name='pen'/></order>")
        agent.until_idle()
        assert texts(agent, "post") == ["ink, pen after 2h 30m; in parts"]


def test_N42_a_bill_is_summed_up_and_due_in_two_weeks(at: HomeInTime) -> None:
    at.write("recipes/desk.xml", BILL)
    with at.open() as agent:
        agent.start("desk.bill")
        agent.add("<order id='A17'><item price='1.5'/><item price='2'/></order>")
        agent.until_idle()
        assert texts(agent, "sent-bill") == ["3.5 by 2026-03-16"]


def test_N47_each_call_has_an_argument_of_its_own_with_its_working_days(at: HomeInTime) -> None:
    at.write("recipes/desk.xml", REMIND)
    with at.open() as agent:
        for id, due in (("a", "2026-02-27"), ("b", "2026-02-20"), ("c", "soon")):
            agent.add(f"<bill id='{id}' due='{due}' state='open'/>")
        run = agent.start("desk.late")
        agent.until_idle()
        assert texts(agent, "reminder") == [
            "a is 1 working days late",
            "b is 6 working days late",
            "c is NaN working days late",
        ]
        bill, reminder = agent.memory("bill")[0], agent.memory("reminder")[0]
        text = agent.memory("text")[0]
        assert text.origin.inputs == (bill.eid,)
        assert text.eid in reminder.origin.inputs
        assert agent.ask("show", run=run)["state"] == "done"


def test_N47_each_run_that_is_called_has_an_argument_of_its_own(at: HomeInTime) -> None:
    inner = REMIND.replace('name="late"', 'name="one"').replace(""" foreach="bill[@state='open']\"""", "")
    inner = inner.replace("<arguments>", "").replace("</arguments>", "").replace(" is {days", "{days")
    start, end = inner.index("<text>"), inner.index("</text>") + len("</text>")
    outer = """<recipe group="desk" name="all" start_step="all" end_step="all">
      <step id="all" type="recipe" target="desk.one" foreach="bill">
        <arguments><text>Dear {$each/@to}</text></arguments></step></recipe>"""
    at.write("recipes/desk.xml", f"<cookbook>{inner[:start]}{inner[end:]}{outer}</cookbook>")
    with at.open() as agent:
        agent.add("<bill id='a' to='Ann'/>")
        agent.add("<bill id='b' to='Bob'/>")
        agent.start("desk.all")
        agent.until_idle()
        assert [(each.attributes["of"], each.text) for each in agent.memory("reminder")] == [
            ("a", "Dear Ann"),
            ("b", "Dear Bob"),
        ]


def test_N42_a_digest_has_a_line_for_each_mail(at: HomeInTime) -> None:
    at.write("recipes/desk.xml", DIGEST)
    with at.open() as agent:
        agent.start("desk.digest")
        agent.add("<mail from='ann' subject='Tea {$plan}'><file>a.pdf</file><file>b.pdf</file></mail>")
        agent.add("<mail from='bob' subject='Cake'/>")
        agent.elapse(days=1)
        assert texts(agent, "post") == ["ann: Tea {$plan} a.pdf b.pdf; bob: Cake; that is all, 2"]


def test_N42_what_is_repeated_too_often_fails_its_step(at: HomeInTime) -> None:
    at.write("recipes/desk.xml", DIGEST.replace("$m in $mails", "$m in $mails/to"))
    with at.open() as agent:
        run = agent.start("desk.digest")
        agent.add(f"<mail>{'<to/>' * 1001}</mail>")
        agent.elapse(days=1)
        assert "expected $mails/to to be at most 1,000 elements" in agent.why(run)["reason"]


def test_what_values_can_is_known_to_check_and_to_explore(at: HomeInTime) -> None:
    at.write("recipes/desk.xml", f"<cookbook>{BILL}{REMIND}{DIGEST}</cookbook>")
    home = Home(at.path)
    assert check_home(home) == []
    reports = {report.name: report for report in explore_home(home, most=3000) if report.kind == "recipe"}
    assert {"desk.bill", "desk.late", "desk.digest"} <= reports.keys()
    for report in reports.values():
        assert (report.complete, [each for each in report.findings if each.severity == "error"]) == (True, [])
