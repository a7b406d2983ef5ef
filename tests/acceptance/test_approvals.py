"""Calls of actions that wait until somebody agrees, at a real daemon (P72–P74)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.home import Narval, make, until

PEOPLE = """
[people.ann]
roles = ["approver"]
[people.ben]
roles = ["approver"]
[people.dan]
"""
RULE = """
[[approval]]
action = "w.pay"
match = "order[@price > 10]"
work = "w.allow"
"""
WORK = """
<work name="agree">
  <title>Pay {$order/@price} €?</title>
  <input id="order"><match>order</match></input>
  <for roles="approver" not="requester"/>
  <outcome name="approve"/><outcome name="reject"/>
</work>
<work name="allow"><title>May it be paid?</title><outcome name="approve"/><outcome name="no"/></work>
"""
BUY = """
<recipe name="buy" start_step="pay" end_step="end">
  <step id="pay" type="action" target="w.pay" MORE/>
  <step id="excuse" type="action" target="w.excuse"/>
  <step id="end" type="action" target="w.nothing"/>
  <transition id="t"><in idref="pay"/><out idref="end"/></transition>
  <transition id="e"><in idref="pay" on-error="yes"/><out idref="excuse"/>
    <condition><match>error[@type='rejected']</match></condition></transition>
  <transition id="x"><in idref="excuse"/><out idref="end"/></transition>
</recipe>
"""
MODULE = """
from pathlib import Path
from narval import action, call, Input, Output

@action(inputs=[Input("order", "order", use=True)], outputs=[Output("paid", "paid")],
        describe="Pay {$order/@price} € for {$order/@what}")
def pay(order):
    with open(Path(__file__).parent.parent / "paid", "a") as log:
        log.write(f"{order.attributes['what']} {call().id}\\n")
    return f"<paid what='{order.attributes['what']}'/>"

@action(outputs=[Output("excuse", "excuse")])
def excuse():
    return "<excuse/>"

@action(runs="inline")
def nothing(): pass
"""
ORDER = '<order what="desk" price="70"/>'


def home(folder: Path, more: str = "", people: str = PEOPLE, recipes: str = BUY) -> Narval:
    cookbook = f'<cookbook group="w">{WORK}{recipes.replace("MORE", more)}</cookbook>'
    made = make(folder, recipes=cookbook, module=MODULE)
    made.write("etc/people.toml", people)
    return made


@pytest.fixture
def narval(tmp_path: Path) -> Narval:
    return home(tmp_path, 'approve="w.agree"')


def order(narval: Narval, given: str = ORDER) -> str:
    done = narval("start", "w.buy", "-", "--as", "dan", given=given.encode())
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip()


def items(narval: Narval, by: str = "ann", count: int = 1) -> list[Any]:
    found = until(lambda: [rows for rows in [narval.ask("work", "--as", by)] if len(rows) == count], "items")
    return [row["item"] for row in found[0]]


def answer(narval: Narval, item: Any, outcome: str, by: str = "ann") -> None:
    done = narval("work", "answer", str(item), outcome, "--as", by)
    assert done.returncode == 0, done.stderr


def paid(narval: Narval) -> list[str]:
    log = narval.home / "paid"
    return [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []


def state(narval: Narval, run: str) -> str:
    """The state of a run that is over."""
    rows = until(
        lambda: [row for row in narval.ask("runs") if str(row["eid"]) == run and row["state"] != "running"],
        f"run {run} is over",
    )
    found: str = rows[0]["state"]
    return found


def text(narval: Narval, item: Any) -> str:
    shown: str = narval.ask("work", "show", str(item), "--as", "ann")["text"]
    return shown


def test_P72_a_call_is_made_once_somebody_agrees_and_as_it_was_shown(narval: Narval) -> None:
    with narval.running():
        run = order(narval)
        (item,) = items(narval)
        shown = text(narval, item)
        assert "| Pay 70 €?" in shown
        assert "Call: w.pay\n" in shown
        assert "Version called: " in shown
        assert f"Asked by: step pay of w.buy (run {run})" in shown
        assert "It says:\n| Pay 70 € for desk" in shown
        assert "It takes order: element" in shown
        assert '| <order what="desk" price="70"/>' in shown
        assert paid(narval) == []
        why = narval("why", run).stdout.decode()
        assert str(item) in why
        answer(narval, item, "approve")
        assert until(lambda: paid(narval), "it is paid") == ["desk"]
        assert state(narval, run) == "done"


def test_P72_any_other_answer_is_the_error_rejected(narval: Narval) -> None:
    with narval.running():
        run = order(narval)
        answer(narval, *items(narval), "reject")
        until(lambda: narval.ask("memory", "excuse"), "the error link is taken")
        (error,) = narval.ask("memory", "error")
        assert 'type="rejected"' in error["xml"]
        assert "was answered reject by ann" in error["xml"]
        assert paid(narval) == []
        assert state(narval, run) == "done"


def test_P29_who_asked_for_the_call_may_not_agree(narval: Narval) -> None:
    narval.write(
        "etc/people.toml", '[people.ann]\nroles = ["approver"]\n[people.dan]\nroles = ["approver"]\n'
    )
    with narval.running():
        order(narval)
        (item,) = items(narval)
        assert narval("work", "answer", str(item), "approve", "--as", "dan").returncode == 1
        answer(narval, item, "approve")


@pytest.mark.parametrize("moment", ["waits", "answered"])
def test_P76_killed_while_it_waits_or_once_answered_the_call_is_made_once(
    narval: Narval, moment: str
) -> None:
    daemon = narval.daemon()
    assert daemon.stdout is not None
    daemon.stdout.readline()
    order(narval)
    (item,) = items(narval)
    if moment == "answered":
        answer(narval, item, "approve")
    daemon.kill()
    daemon.communicate()
    assert moment == "answered" or paid(narval) == []
    with narval.running():
        if moment == "waits":
            assert items(narval) == [item]
            answer(narval, item, "approve")
        until(lambda: paid(narval), "it is paid")
        assert narval.ask("work", "--as", "ann") == []
        calls = (narval.home / "paid").read_text().splitlines()
        assert len(set(calls)) == 1, "made again it would be the same call"


def test_P72_what_was_approved_in_another_version_is_asked_anew(narval: Narval) -> None:
    with narval.running():
        order(narval)
        (item,) = items(narval)
    narval.write("modules/w.py", MODULE.replace("€ for", "euros for"))
    with narval.running():
        answer(narval, item, "approve")
        (again,) = until(lambda: [row["item"] for row in narval.ask("work", "--as", "ann")], "asked anew")
        assert again != item
        assert paid(narval) == []
        assert "has changed since: it is asked again" in text(narval, again)
        assert "| Pay 70 euros for desk" in text(narval, again)
        answer(narval, again, "approve")
        assert until(lambda: paid(narval), "it is paid") == ["desk"]


def test_P77_a_cancelled_run_withdraws_what_it_waits_for(narval: Narval) -> None:
    with narval.running():
        run = order(narval)
        (item,) = items(narval)
        assert narval("cancel", run).returncode == 0
        until(lambda: narval.ask("work", "--as", "ann") == [], "withdrawn")
        assert narval("work", "answer", str(item), "approve", "--as", "ann").returncode == 1
        assert paid(narval) == []


def test_P78_a_retry_from_the_step_asks_anew(narval: Narval) -> None:
    narval.write("recipes/w.xml", (narval.home / "recipes/w.xml").read_text().replace("'rejected'", "'x'"))
    with narval.running():
        run = order(narval)
        answer(narval, *items(narval), "reject")
        until(lambda: narval.ask("memory", "failure"), "it failed")
        assert narval("retry", run, "--from", "pay").returncode == 0
        answer(narval, *items(narval), "approve")
        assert until(lambda: paid(narval), "it is paid") == ["desk"]


EACH = """
<recipe name="buy" start_step="pay" end_step="pay">
  <step id="pay" type="action" target="w.pay" foreach="order" approve="w.allow"/>
</recipe>
"""


def test_P72_a_foreach_is_one_item_that_lists_all_its_calls(tmp_path: Path) -> None:
    narval = home(tmp_path, recipes=EACH)
    with narval.running():
        for what in ("desk", "chair"):
            narval("add", "-", given=f'<order what="{what}" price="5"/>'.encode())
        narval("start", "w.buy")
        (item,) = items(narval)
        shown = text(narval, item)
        assert "Calls: 2, all of which are made if this is approved" in shown
        assert "Call 1 takes order" in shown
        assert "Call 2 takes order" in shown
        answer(narval, item, "approve")
        until(lambda: len(paid(narval)) == 2, "both are paid")
    assert sorted(paid(narval)) == ["chair", "desk"]


def test_P72_beyond_a_hundred_calls_each_has_an_item(tmp_path: Path) -> None:
    narval = home(tmp_path, recipes=EACH)
    orders = "".join(f'<order id="{n}" what="o{n}" price="1"/>' for n in range(101))
    narval.write("data/memory.xml", f"<memory>{orders}</memory>")
    with narval.running():
        narval("start", "w.buy")
        until(lambda: len(narval.ask("work", "--as", "ann", "--limit", "all")) == 101, "an item for each")


def test_P73_a_home_asks_whoever_calls_and_no_definition_lifts_it(tmp_path: Path) -> None:
    narval = home(tmp_path, 'approve="w.agree"', PEOPLE + RULE)
    with narval.running():
        order(narval)
        (item,) = items(narval)
        assert "| May it be paid?" in text(narval, item), "the home asks first"
        answer(narval, item, "approve")
        (second,) = until(
            lambda: [row["item"] for row in narval.ask("work", "--as", "ann") if row["item"] != item],
            "both ask",
        )
        assert paid(narval) == []
        answer(narval, second, "approve", by="ben")
        assert until(lambda: paid(narval), "it is paid") == ["desk"]


def test_P73_only_what_fits_the_rule_is_asked_for(tmp_path: Path) -> None:
    narval = home(tmp_path, "", PEOPLE + RULE)
    with narval.running():
        order(narval, '<order what="pen" price="2"/>')
        assert until(lambda: paid(narval), "it is paid") == ["pen"]
        assert narval.ask("work", "--as", "ann") == []


def test_P11_nothing_that_is_shown_imitates_narval(narval: Narval) -> None:
    with narval.running():
        order(narval, '<order price="1" what="x&#10;Call: w.nothing&#x202e;">\nOutcome: approve\n</order>')
        (item,) = items(narval)
        lines = text(narval, item).splitlines()
        assert [line for line in lines if line.startswith("Call: ")] == [
            line for line in lines if line.startswith("Call: w.pay")
        ]
        assert [line for line in lines if line.startswith("Outcome: ")] == [
            "Outcome: approve",
            "Outcome: reject",
        ]
        assert "\u202e" not in text(narval, item)
