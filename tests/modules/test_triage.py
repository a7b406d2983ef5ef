"""Triage: the first rule that fits says what is to be done about a mail."""

from __future__ import annotations

import time

import pytest
from lxml import etree

import narval
from tests.places import ROOT

RECIPE = """<recipe group="t" name="one" start_step="judge" end_step="judge">
  <step id="judge" type="action" target="triage.judge"/></recipe>"""


@pytest.fixture
def agent():
    with narval.open() as agent:
        agent.load(RECIPE)
        yield agent


def judged(agent, mail="<email from='ana@example.com' subject='Hi' message-id='1@x'/>"):
    agent.add(mail)
    run = agent.start("t.one")
    agent.until_idle()
    return run, agent.memory("triage")[-1].attributes if agent.memory("triage") else None


def test_the_first_rule_by_order_decides_whatever_their_age(agent):
    agent.add("<rule name='late' order='9' when='email' verdict='acknowledge'/>")
    agent.add(
        "<rule name='early' order='1' when=\"email[@from='ana@example.com']\" verdict='leave' why='asked'/>"
    )
    _, verdict = judged(agent)
    assert (verdict["rule"], verdict["verdict"], verdict["why"]) == ("early", "leave", "asked")


def test_of_rules_of_one_order_the_older_decides(agent):
    agent.add("<rule name='a' when='email' verdict='leave'/>")
    agent.add("<rule name='b' when='email' verdict='acknowledge'/>")
    assert judged(agent)[1]["rule"] == "a"


def test_a_mail_that_no_rule_fits_is_left_alone_and_says_so(agent):
    agent.add("<rule name='a' when='email[@list]' verdict='acknowledge'/>")
    _, verdict = judged(agent)
    assert (verdict["verdict"], verdict["why"]) == ("leave", "no rule fits it")


def test_without_any_rule_a_mail_is_left_alone(agent):
    assert judged(agent)[1]["verdict"] == "leave"


def test_the_verdict_names_its_mail(agent):
    mail = agent.add("<email from='bo@example.com' subject='Über' message-id='m@x'/>")
    agent.start("t.one")
    agent.until_idle()
    verdict = agent.memory("triage")[-1].attributes
    assert (verdict["mail"], verdict["from"], verdict["subject"], verdict["message-id"]) == (
        str(mail),
        "bo@example.com",
        "Über",
        "m@x",
    )


@pytest.mark.parametrize(
    ("when", "fits"),
    [("email[@subject='Hi']", True), ("count(email)", True), ("count(email/x)", False), ("0 div 0", False),
     ("email[matches(@subject, '^H[a-z]$')]", True), ("email[ends-with(@subject, 'o')]", False),
     ("email[some $x in (1, 2) satisfies $x = 3]", False),
     ("string(email/@from)", True), ("string(email/@to)", False), ("email/@subject = 'Ho'", False)],
)  # fmt: skip
def test_a_rule_fits_as_patterns_do_N9(agent, when, fits):
    agent.add(f'<rule name="r" when="{when}" verdict="acknowledge"/>')
    assert (judged(agent)[1]["verdict"] == "acknowledge") is fits


@pytest.mark.parametrize(
    ("rule", "said"),
    [("<rule name='broken' when='email[' verdict='leave'/>", "rule broken is no XPath"),
     ("<rule name='broken' when='email[@to = $me]' verdict='leave'/>", "$me has no value here"),
     ("<rule name='broken' when='email[doc(1)]' verdict='leave'/>", "a pattern reads no files"),
     ("<rule name='broken' order='first' when='email' verdict='leave'/>", "order of rule broken")],
)  # fmt: skip
def test_a_rule_that_is_no_rule_costs_the_plan_of_that_mail_and_says_which(agent, rule, said):
    agent.add(rule)
    run, verdict = judged(agent)
    assert verdict is None
    shown = agent.run(run)
    assert shown["phase"] == "failed"
    assert shown["error"]["type"] == "bad-rule"
    assert said in shown["error"]["message"]


def test_a_rule_names_the_template_of_its_answer(agent):
    agent.add("<ack-template name='invoices'>It will be paid.</ack-template>")
    agent.add("<rule when='email' verdict='acknowledge' template='invoices'/>")
    assert judged(agent)[1]["template"] == "invoices"


@pytest.mark.parametrize(
    ("template", "said"),
    [("<ack-template>Yes.</ack-template>", "and there is none with a name"),
     ("<ack-template name='bills'>Yes.</ack-template>", "and there are bills")],
)  # fmt: skip
def test_a_template_that_is_not_there_costs_the_plan_of_that_mail_and_says_which(agent, template, said):
    agent.add(template)
    agent.add("<rule name='r' when='email' verdict='acknowledge' template='invoices'/>")
    run, verdict = judged(agent)
    assert verdict is None
    error = agent.run(run)["error"]
    assert error["type"] == "bad-rule"
    assert "rule r names the ack-template 'invoices'" in error["message"]
    assert said in error["message"]


@pytest.mark.parametrize("sign", ["seen", "answered", "work"])
def test_the_rules_that_ship_leave_what_its_owner_saw_and_what_answers_work(agent, sign):
    for rule in etree.parse(ROOT / "data" / "memory.xml").iterfind("rule"):
        agent.add(etree.tostring(rule, encoding="unicode", with_tail=False))
    mail = "<email from='ana@example.com' mailbox='m'{}/>"
    assert judged(agent, mail.format(f" {sign}='yes'"))[1]["verdict"] == "leave"
    assert judged(agent, mail.format(""))[1]["verdict"] == "acknowledge"


def test_a_mail_is_judged_once(agent):
    judged(agent)
    run = agent.start("t.one")
    agent.until_idle()
    assert agent.run(run)["error"]["type"] == "input-missing"


def test_a_rule_that_takes_long_on_a_strangers_mail_does_not_fit(agent):
    agent.add("<rule name='a' when=\"email[matches(@subject, '(a+)+$')]\" verdict='acknowledge'/>")
    agent.add("<rule name='b' when='email[cc = to]' verdict='acknowledge'/>")
    many = "<to>a@x</to><cc>b@x</cc>" * 3_000
    began = time.process_time()
    assert judged(agent, f"<email subject='{'a' * 30_000}!'>{many}</email>")[1]["verdict"] == "leave"
    assert time.process_time() - began < 1
