"""What goes to another home is judged by the rules as all that goes outside (F6), whichever way it goes."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from narval.ask.asker import PROGRAM, PYTHON, Asker
from narval.ask.operations import invoke
from narval.daemon.messages.remote_calls import RemoteCalls
from narval.files.shipped import shipped
from tests.daemon.at_work import in_a_loop
from tests.daemon.links.two_homes import TwoHomes

WAIT = """<step id="w" type="action" target="m.nothing"/>
  <transition id="t"><in idref="w"/><out idref="b"/><condition>
    <match>{}</match></condition></transition>"""
NOTE = "note[@topic='health']"
SEND = '<step id="b" type="send" {}><input id="x"><match>{}</match></input></step>'
CALL = """<step id="b" type="recipe" target="m.take" agent="shop@office">
  <input id="x"><match>note</match></input></step>"""
ONE = '<recipe name="{}" start_step="a" end_step="a"><step id="a" type="action" target="m.{}"/></recipe>'


def recipe(name: str, of: str, step: str) -> str:
    return f'<recipe name="{name}" start_step="w" end_step="b">{WAIT.format(of)}{step}</recipe>'


RECIPES = "".join(
    (
        recipe("sends", NOTE, SEND.format('to="shop@office"', "note")),
        recipe("calls", NOTE, CALL),
        recipe("inside", NOTE, SEND.format('to="shelf"', "note")),
        recipe("where", "email", SEND.format('to-select="email/@subject"', "email")),
        recipe("passes", "email", SEND.format('to="shop@office"', "email")),
        ONE.format("mailbox", "fetch"),
        ONE.format("take", "nothing"),
        ONE.format("gives", "give"),
        ONE.format("posts", "post"),
        ONE.format("away", "away"),
    )
)
MODULE = """
from narval import Input, Message, Output, action

@action(runs="inline")
def nothing():
    pass

@action(outputs=[Output("mail", "email")], label="mail", outside=False, runs="inline")
def fetch():
    return "<email subject='shop@office'/>"

@action(inputs=[Input("note", "note")], outputs=[Output("answer", "answer")], runs="inline", outside=False)
def give(note):
    return f"<answer of='{note.text}'/>"

@action(inputs=[Input("note", "note")], outputs=[Output("answer", "answer")], runs="inline", outside=False)
def post(note):
    return Message("shop@office", f"<answer of='{note.text}'/>")

@action(inputs=[Input("note", "note")], runs="inline", outside=False)
def away(note):
    return Message("shop@office", "<answer/>")
"""
OUT = """
@action(inputs=[Input("note", "note")], runs="inline")
def out(note):
    pass
"""
ASKS_HOME = """<recipe group="m" name="asks" start_step="a" end_step="a">
  <step id="a" type="recipe" target="m.{}" agent="narval@home"/></recipe>"""
RULES = """[secret]
health = "note[@topic='health']"

[[rule]]
from = "*"
part = "where"
then = "ask"
"""
SHOP = """receives = [{from = "*@home", elements = ["note", "email", "answer"]}]
offers = {"m.take" = ["*@home"], "m.gives" = ["*@home"]}
"""
SECRET = '<note topic="health">HIV positive</note>'


@pytest.fixture
def homes(tmp_path: Path) -> TwoHomes:
    homes = TwoHomes(tmp_path)
    for name in ("home", "office"):
        homes.write(name, "recipes/m.xml", f'<cookbook group="m">{RECIPES}</cookbook>')
        homes.write(name, "recipes/trust.xml", (shipped() / "recipes/trust.xml").read_text())
        homes.write(name, "modules/m.py", MODULE)
        homes.write(name, "agents/shop/agent.toml", SHOP)
    homes.write("home", "agents/shelf/agent.toml", "")
    homes.write("home", "etc/trust.toml", RULES)
    homes.write("home", "etc/people.toml", '[people.ann]\nweb = "operator"\n')
    return homes


async def ask(homes: TwoHomes, operation: str, **arguments: Any) -> Any:
    """An operation of the home, as asked for by ann."""
    return await invoke(
        homes.daemons["home"], Asker("ann", os.geteuid(), PYTHON).asking(""), operation, arguments
    )


async def begin(homes: TwoHomes, recipe: str, element: str = SECRET) -> int:
    """The run of a recipe of the home, with an element in its memory."""
    await ask(homes, "add", elements=[element.encode()])
    run = (await ask(homes, "start", name=f"m.{recipe}"))["eid"]
    await homes.exchange()
    return int(run)


async def asked(homes: TwoHomes) -> list[str]:
    """The titles of the items that ask at home."""
    return [row["title"] for row in await ask(homes, "worklist")]


async def at_the_shop(homes: TwoHomes, name: str) -> list[str]:
    """The texts of elements that the shop of the office has."""
    async with homes.daemons["office"].of("shop") as seen:
        elements = map(seen.agent.memory.element, seen.agent.memory)
        return [one.text for one in elements if one is not None and one.name == name]


@pytest.mark.parametrize(
    ("recipe", "question"), [("sends", "send to shop@office?"), ("calls", "m.take to shop@office?")]
)
@pytest.mark.parametrize("outcome", ["once", "reject"])
@in_a_loop
async def test_a_secret_asks_before_it_goes_to_another_home(
    homes: TwoHomes, recipe: str, question: str, outcome: str
) -> None:
    await homes.open()
    run = await begin(homes, recipe)
    assert (await asked(homes), await at_the_shop(homes, "note")) == ([question], [])
    await homes.close("home")  # the question outlives the daemon, and asks once
    await homes.open("home")
    await homes.exchange()
    (row,) = await ask(homes, "worklist")
    text = (await ask(homes, "work_item", item=row["item"]))["text"]
    assert (row["title"], await at_the_shop(homes, "note")) == (question, [])
    assert "labelled secret:health" in text
    assert "HIV positive" in text
    assert "\n\nIt goes to another home: shop@office\n" in text
    await ask(homes, "answer", item=row["item"], outcome=outcome)
    await homes.exchange()
    is_agreed = outcome == "once"
    assert await at_the_shop(homes, "note") == ["HIV positive"] * is_agreed
    assert b"secret:" not in homes.frames["home"], "what is secret here is no matter of the other home"
    ended = await ask(homes, "show", run=run)
    assert ended["phase"] == ("done" if is_agreed else "failed")
    await homes.close()


@in_a_loop
async def test_a_call_that_is_given_up_while_it_asks_ends_the_question(homes: TwoHomes) -> None:
    await homes.open()
    run = await begin(homes, "calls")
    await ask(homes, "cancel", run=run)
    await homes.exchange()
    assert (await asked(homes), await at_the_shop(homes, "note")) == ([], [])
    assert (await ask(homes, "show", run=run))["phase"] == "cancelled"
    await homes.close()


@in_a_loop
async def test_what_stays_in_the_home_asks_nothing(homes: TwoHomes) -> None:
    await homes.open()
    await begin(homes, "inside")
    assert await asked(homes) == []
    await homes.close()


@pytest.mark.parametrize(("recipe", "asks"), [("where", True), ("passes", False)])
@in_a_loop
async def test_a_stranger_does_not_say_to_which_home_something_goes(
    homes: TwoHomes, recipe: str, asks: bool
) -> None:
    await homes.open()
    await ask(homes, "start", name=f"m.{recipe}")
    await ask(homes, "start", name="m.mailbox")
    await homes.exchange()
    assert await asked(homes) == ["send to shop@office?"] * asks
    assert len(await at_the_shop(homes, "email")) == (not asks)
    await homes.close()


@in_a_loop
async def test_a_rule_names_the_agent_of_another_home(homes: TwoHomes) -> None:
    rule = '[[rule]]\nsecret = "*"\naction = "agent:*"\nthen = "refuse"\n'
    homes.write("home", "etc/trust.toml", RULES + rule)
    await homes.open()
    run = await begin(homes, "sends")
    error = (await ask(homes, "show", run=run))["error"]
    assert error["type"] == "refused-by-rule"
    assert "m.sends may not call send to shop@office: the rule on line 8" in error["message"]
    assert (await asked(homes), await at_the_shop(homes, "note")) == ([], [])
    await homes.close()


@pytest.mark.parametrize("allowed", [False, True])
@in_a_loop
async def test_an_answer_with_a_secret_is_not_given_to_another_home(homes: TwoHomes, allowed: bool) -> None:
    rule = '[[rule]]\nsecret = "*"\naction = "agent:*@office"\nrecipe = "m.gives"\nthen = "allow"\n'
    homes.write("home", "etc/trust.toml", RULES + rule.replace("*@office", "narval@office") * allowed)
    homes.write("home", "etc/narval.toml", '[agent]\noffers = {"m.gives" = ["*@office"]}\n')
    homes.write(
        "office",
        "recipes/asks.xml",
        ASKS_HOME.format("gives"),
    )
    await homes.open()
    await ask(homes, "add", elements=[SECRET.encode()])
    run = (await homes.ask("office", "start", name="m.asks"))["eid"]
    await homes.exchange()
    await homes.exchange()
    shown = await homes.ask("office", "show", run=run)
    assert shown["phase"] == ("done" if allowed else "failed")
    assert len(await homes.memory("office", "answer")) == allowed
    assert allowed or shown["error"]["type"] == "asks-first"
    assert allowed or "HIV" not in str(shown)
    assert (b"HIV" in homes.frames["home"], b"secret:" in homes.frames["home"]) == (allowed, False)
    await homes.close()


@in_a_loop
async def test_an_answer_to_another_try_is_judged_as_the_first_was(
    homes: TwoHomes, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes.write("home", "etc/narval.toml", '[agent]\noffers = {"m.gives" = ["*@office"]}\n')
    again = ASKS_HOME.replace("agent=", 'timeout="100" retries="1" backoff="5" agent=')
    homes.write("office", "recipes/asks.xml", again.format("gives"))
    await homes.open()
    await ask(homes, "add", elements=[b"<note>rain</note>"])
    run = (await homes.ask("office", "start", name="m.asks"))["eid"]
    with monkeypatch.context() as lost:
        lost.setattr(RemoteCalls, "come_back", lambda *_: None)
        await homes.exchange()
        await homes.daemons["office"].main_loop.elapse(101)
    (answer,) = await homes.memory("home", "answer")
    homes.daemons["home"].agent.memory.labels.add(answer["eid"], ("secret:health",))
    homes.frames["home"] = b""
    await homes.daemons["office"].main_loop.elapse(60)
    await homes.exchange()
    error = (await homes.ask("office", "show", run=run))["error"]
    assert (error["type"], error["message"]) == (
        "asks-first",
        "what m.gives gives is withheld by rules of its home",
    )
    assert b"rain" not in homes.frames["home"]
    await homes.close()


@in_a_loop
async def test_the_label_of_a_part_names_no_secret_to_another_home(homes: TwoHomes) -> None:
    await homes.open()
    labels = ("//@iban=secret:bank", "mail", "secret:health")
    asker = replace(PROGRAM.asking(""), labels=labels)
    await invoke(homes.daemons["home"], asker, "send", {"to": "shop@office", "elements": [b"<note/>"]})
    await homes.exchange()
    assert await at_the_shop(homes, "note") == [""]
    assert (b"mail" in homes.frames["home"], b"secret:" in homes.frames["home"]) == (True, False)
    await homes.close()


@in_a_loop
async def test_another_home_is_told_that_it_is_refused_and_neither_rule_nor_label(homes: TwoHomes) -> None:
    rule = '[[rule]]\nfrom = "agent:*"\naction = "m.out"\nthen = "refuse"\nwhy = "as is told nobody"\n'
    homes.write("home", "etc/trust.toml", RULES + rule)
    homes.write("home", "modules/m.py", MODULE + OUT)
    homes.write("home", "recipes/o.xml", f'<cookbook group="m">{ONE.format("outs", "out")}</cookbook>')
    homes.write("home", "etc/narval.toml", '[agent]\noffers = {"m.outs" = ["*@office"]}\n')
    homes.write("office", "recipes/asks.xml", ASKS_HOME.format("outs"))
    await homes.open()
    await ask(homes, "add", elements=[b"<note>rain</note>"])
    run = (await homes.ask("office", "start", name="m.asks"))["eid"]
    await homes.exchange(8)
    error = (await homes.ask("office", "show", run=run))["error"]
    assert (error["type"], error["message"]) == ("refused-by-rule", "m.outs is refused by rules of its home")
    (here,) = await homes.memory("home", "error")
    assert "etc/trust.toml refuses whether it is made, which has the label agent:office" in here["xml"]
    assert not re.search(rb"etc/trust|the label|told nobody", homes.frames["home"])
    await homes.close()


@pytest.mark.parametrize("is_hearsay", [False, True])
@in_a_loop
async def test_without_rules_a_message_of_code_goes_unless_a_language_model_led_to_it(
    homes: TwoHomes, is_hearsay: bool
) -> None:
    (homes.scenes["home"].home.path / "etc/trust.toml").unlink()
    await homes.open()
    (note,) = (await ask(homes, "add", elements=[b"<note>rain</note>"]))["eids"]
    if is_hearsay:
        homes.daemons["home"].agent.memory.labels.add(note, ("model:near",))
    run = (await ask(homes, "start", name="m.away"))["eid"]
    await homes.exchange(8)
    shown = await ask(homes, "show", run=run)
    assert (shown["error"] or {}).get("type") == ("asks-first" if is_hearsay else None)
    assert await at_the_shop(homes, "answer") == [""] * (not is_hearsay)
    await homes.close()


@in_a_loop
async def test_a_message_that_code_sends_is_judged_too(homes: TwoHomes) -> None:
    await homes.open()
    run = await begin(homes, "posts")
    error = (await ask(homes, "show", run=run))["error"]
    assert error["type"] == "asks-first"
    assert await at_the_shop(homes, "answer") == []
    await homes.close()
