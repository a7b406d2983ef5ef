"""What a person writes at a chat as the answer to what was asked, by a home that is at work (C4, C9, C10)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import narval
from narval.ask.asker import Asker
from narval.ask.operations import invoke
from narval.people.chat.messages import Asked, OpenForm
from narval.people.chat.notices import button_of
from narval.surfaces.chat.answers import Answered, Said, answered, not_understood
from narval.system.clock import SimulatedClock

PEOPLE = """
ways = ["chat"]
[people.ann]
roles = ["approver"]
[people.ben]
roles = ["approver"]
[people.dan]
"""
WORK = """<cookbook group="w">
<work name="approve">
  <title>Approve {$request/@what}</title>
  <input id="request"><match>request</match></input>
  <for roles="approver"/>
  <outcome name="approve"/><outcome name="reject"/>
</work>
<work name="order">
  <title>Order</title><for roles="approver"/>
  <outcome name="order"/><outcome name="reject"/>
  <field name="many" type="integer" least="1" most="9" required="order">How many</field>
  <field name="colour" type="choice" options="red green">Which colour</field>
  <field name="soon" type="boolean" default="yes">Is it urgent?</field>
  <field name="whom" type="person">For whom</field>
  <field name="words" list="yes">Words</field>
</work>
<work name="vote">
  <title>Vote</title><for roles="approver"/>
  <outcome name="yes" needs="2"/><outcome name="no" needs="2"/>
</work>
</cookbook>"""


class Phone:
    """A person at a chat, whose messages go where the program takes them."""

    def __init__(self, home: Path) -> None:
        for path, text in {"etc/people.toml": PEOPLE, "recipes/w.xml": WORK}.items():
            file = home / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.agent = narval.open(home, clock=SimulatedClock(1_000_000.0))
        self.asked: list[Asked] = []
        self.form: OpenForm | None = None
        self.at = 1_000_000.0
        self.is_early = False
        self.since: list[Asked] = []

    async def _ask(self, method: str, /, *, agent: str = "", **params: Any) -> Any:
        asker = Asker("ann", 0, "chat", "chat:phone").asking(agent)
        return await invoke(self.agent.daemon, asker, method, params)

    def is_asked(self, name: str, *elements: str) -> Asked:
        """An item is offered, and its message has come."""
        self.agent.asker = Asker("dan", 0, "python")
        item = int(self.agent.start(name, *elements))
        self.agent.until_idle()
        asked = Asked(item=item, shown=self.shown(item), title=name)
        self.asked.append(asked)
        return asked

    def shown(self, item: int) -> str:
        return str(self.item(item)["shown"])

    def item(self, item: int) -> Any:
        self.agent.asker = Asker("ann", 0, "python")
        return self.agent.work_item(item)

    def says(self, text: str = "", button: str = "", about: Asked | None = None) -> Answered | None:
        line = Said(text, self.at, button, about, self.asked, self.form, self.is_early, self.since)
        result = self.agent.runner.run(answered(self._ask, line))
        if result is not None:
            self.form = result.form
        return result

    def hears(self, text: str = "", button: str = "", about: Asked | None = None) -> str:
        """The answer to a message that is one."""
        result = self.says(text, button, about)
        assert result is not None, "it is no answer"
        return result.text

    def presses(self, asked: Asked, number: int, digest: str = "") -> str:
        return self.hears(button=button_of(asked.item, number, digest or asked.shown))

    def decision(self, item: int) -> str:
        return self.agent.element(self.item(item)["answer"]).xml.decode()


@pytest.fixture
def phone(tmp_path: Path) -> Iterator[Phone]:
    made = Phone(tmp_path)
    yield made
    made.agent.close()


@pytest.mark.parametrize("words", ["1", "approve", "Approve", "answer {} approve", "ANSWER {} 1"])
def test_C9_a_number_or_a_word_answers_the_one_item_that_was_asked(phone: Phone, words: str) -> None:
    item = phone.is_asked("w.approve", '<request what="a desk"/>').item
    assert phone.hears(words.format(item)) == f"{item} is done: approve"
    assert 'outcome="approve" by="ann"' in phone.decision(item)
    assert 'way="chat"' in phone.decision(item)


def test_C9_a_button_answers_the_item_whose_text_was_shown(phone: Phone) -> None:
    asked = phone.is_asked("w.approve", '<request what="a desk"/>')
    assert "another text" in phone.presses(asked, 1, digest="0" * 64)
    assert phone.item(asked.item)["state"] == "offered"
    result = phone.says(button=button_of(asked.item, 2, asked.shown))
    assert result is not None
    assert result.text == f"{asked.item} is done: reject"
    assert result.item == asked, "its message is named by the title"


def test_C9_a_word_written_before_one_was_asked_answers_nothing(phone: Phone) -> None:
    asked = phone.is_asked("w.approve", '<request what="a desk"/>')
    phone.is_early = True
    text = phone.hears("approve")
    assert text.startswith("You wrote this before you were asked:\n")
    assert f"answer {asked.item} approve" in text
    assert phone.says("approve it") is None
    assert phone.item(asked.item)["state"] == "offered"
    assert phone.hears(f"answer {asked.item} approve") == f"{asked.item} is done: approve"


def test_C9_a_reply_is_about_the_item_of_its_message(phone: Phone) -> None:
    first = phone.is_asked("w.approve", '<request what="a desk"/>')
    second = phone.is_asked("w.approve", '<request what="a chair"/>')
    text = phone.hears("1")
    assert text.startswith("Which one?\n"), "a number alone says not which"
    assert f"answer {second.item} 1" in text
    assert phone.hears("reject", about=first) == f"{first.item} is done: reject"
    assert phone.item(second.item)["state"] == "offered"
    assert phone.says("status") is None, "a command is none of this"
    assert phone.says("what a day", about=second) is None
    line = Said("what a day", phone.at, about=second)
    told = phone.agent.runner.run(not_understood(phone._ask, line))
    assert told is not None
    assert "1 approve, 2 reject" in told.text


def test_C9_what_was_not_shown_is_not_approved(phone: Phone) -> None:
    asked = phone.is_asked("w.approve", '<request what="a desk"/>')
    text = phone.hears("approve", about=replace(asked, shown="f" * 64))
    assert text == "Not taken: this is not the text that the item shows now; look at it again"


def test_C9_fields_are_asked_one_after_another_and_what_is_wrong_is_said_at_once(phone: Phone) -> None:
    item = phone.is_asked("w.order").item
    assert phone.hears("order").splitlines()[0] == "How many?"
    assert phone.hears("a few").startswith("How many: expected a whole number, found 'a few'\nHow many?")
    assert phone.hears("12").startswith("How many: expected 9 or less")
    assert phone.hears("-").startswith("How many: expected a value, for order requires it")
    assert phone.hears("3") == (
        "Which colour?\n1 red\n2 green\nWrite - to leave it out.\nWrite cancel to answer nothing."
    )
    assert phone.hears("blue").startswith("Which colour: expected one of red, green, found 'blue'")
    result = phone.says("2")
    assert result is not None
    assert result.buttons == ((f"f{item}.2.1", "yes"), (f"f{item}.2.2", "no"))
    for other in (f"f{item}.1.1", f"f{item + 1}.2.2", f"f{item}.2.2@bob"):
        assert "earlier question" in phone.hears(button=other)
    assert phone.hears(button=f"f{item}.2.2").startswith("For whom?")
    assert phone.hears("bob").startswith("Words?")
    assert phone.hears("one\ntwo").startswith("For whom: expected the name of a person, found 'bob'")
    assert phone.hears("ben") == f"{item} is done: order"
    text = phone.decision(item)
    for part in ("<many>3<", "<colour>green<", "<soon>false<", "<whom>ben<", "<words>one<", "<words>two<"):
        assert part in text


def test_C9_a_form_is_left_by_cancel_and_by_time(phone: Phone) -> None:
    item = phone.is_asked("w.order").item
    phone.hears("1")
    assert phone.hears("cancel") == f"Nothing was answered; {item} still waits"
    phone.hears("1")
    phone.at += 2 * 3600
    assert phone.says("status") is None, "it is no value any more"
    assert phone.item(item)["state"] == "offered"


def test_C9_a_word_for_a_newer_question_is_not_taken_for_a_value(phone: Phone) -> None:
    form = phone.is_asked("w.order")
    first = form.item
    phone.hears("order")
    phone.since = [form]  # the same item, of which the person was reminded meanwhile
    assert phone.hears("4").startswith("Which colour")
    second = phone.is_asked("w.approve", '<request what="a desk"/>')
    phone.since = [second]
    for word in ("1", "Approve"):
        text = phone.hears(word)
        assert text.startswith(
            f"Which one? To answer {second.item}, write: answer {second.item} {word.lower()}"
        )
        assert "Which colour" in text
    assert phone.hears("green").startswith("Is it urgent?")
    phone.since = []
    assert phone.item(first)["state"] == phone.item(second.item)["state"] == "offered"


def test_C9_fields_may_be_given_with_the_answer(phone: Phone) -> None:
    first, second = phone.is_asked("w.order"), phone.is_asked("w.order")
    assert "there is no field 'Much'" in phone.hears("order\nMuch: 2\nMany: 12", about=first)
    assert phone.hears("order\nMany: 2", about=first) == f"{first.item} is done: order"
    assert phone.hears(f'answer {second.item} order MANY=12 words="so so"').startswith("How many: expected 9")
    assert phone.hears("4") == f"{second.item} is done: order"
    assert "<words>so so<" in phone.decision(second.item)
    assert "found 'many is 3'" in phone.hears(f"answer {second.item} order many is 3")


def test_C10_who_comes_too_late_is_told_why(phone: Phone) -> None:
    asked = phone.is_asked("w.approve", '<request what="a desk"/>')
    phone.agent.asker = Asker("ben", 0, "python")
    phone.agent.claim(asked.item)
    assert phone.presses(asked, 1).startswith("Not taken: claimed by ben since")
    phone.agent.asker = Asker("ben", 0, "python")
    phone.agent.answer(asked.item, "reject")
    assert phone.presses(asked, 1).startswith("Not taken: it is done by ben since")
    assert phone.hears("answer 99999 approve").startswith("there is no item 99999 that you may see")
    phone.asked.clear()
    assert phone.hears("1") == "Nothing waits for your answer here"


def test_C9_claim_release_and_refuse_are_words(phone: Phone) -> None:
    asked = phone.is_asked("w.approve", '<request what="a desk"/>')
    assert phone.hears(f"claim {asked.item} and 58") == f"expected `claim {asked.item}` alone; found 'and 58'"
    claimed = phone.says("claim")
    assert claimed is not None
    assert (claimed.text, claimed.until) == (f"{asked.item} is yours", phone.at + 86_400)
    assert phone.hears(f"release {asked.item}") == f"{asked.item} is offered again"
    assert phone.hears("refuse I know her") == f"You will not be asked about {asked.item} again"
    vote = phone.is_asked("w.vote")
    assert phone.hears("yes", about=vote) == f"{vote.item}: you answered yes (1 of 2); it waits for others"
    assert phone.hears("claim", about=vote).startswith("Not taken: several people answer this")


def test_C9_an_item_that_cannot_be_seen_keeps_nobody_from_other_words(phone: Phone) -> None:
    phone.asked = [Asked(item=999_999)]
    for text in ("status", "work", "remind me in 2h: x"):
        assert phone.says(text) is None
    assert "999999" in phone.hears("1")
    phone.asked = [Asked(item=5), Asked(item=5, agent="bob")]
    assert "5 is an item of several agents (the home, bob)" in phone.hears("answer 5 approve")
