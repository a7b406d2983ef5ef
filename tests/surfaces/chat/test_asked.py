"""People are asked by chat and answer there, by the real program and daemon (C9, C10, C14a)."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from narval.files.check import check_home
from narval.files.shipped import shipped
from narval.surfaces.chat.contract import CAPABILITIES, Outgoing
from tests.daemon.at_work import in_a_loop
from tests.docs.typed import blocks
from tests.places import ROOT
from tests.surfaces.chat.at_work import PEOPLE, ChatAtWork, chat_at_work, make_chat_home
from tests.surfaces.chat.stand_in import Service

WORK = """<cookbook group="w">
<work name="approve">
  <title>Approve {$request/@what}</title>
  <input id="request"><match>request</match></input>
  <for people="ann ben"/>
  <outcome name="approve"/><outcome name="reject"/>
  <ways names="terminal chat"/>
</work>
<work name="order"><title>Order</title><for people="ann"/>
  <outcome name="order"/><outcome name="reject"/>
  <field name="many" type="integer" most="9" required="order">How many</field>
  <field name="colour" type="choice" options="red green">Which colour</field>
  <ways names="chat"/>
</work>
<work name="look"><title>About {$note}?</title><input id="note"><match>note</match></input>
  <for people="ann"/><outcome name="yes"/><outcome name="no"/><ways names="terminal chat"/></work>
<work name="permit"><title>May this be done?</title><outcome name="approve"/><outcome name="reject"/></work>
<recipe name="pay" start_step="pay" end_step="pay">
  <step id="pay" type="action" target="basic.copy" approve="w.permit">
    <arguments><copy-as name="paid"/></arguments>
  </step>
</recipe>
</cookbook>"""


async def start(chat: ChatAtWork, name: str, *elements: bytes, acting_as: str = "rob") -> int:
    """Something is started; its number."""
    run: Any = await chat.ask("start", name=name, elements=list(elements), acting_as=acting_as)
    return int(run["eid"])


async def messages(chat: ChatAtWork, number: int) -> list[Outgoing]:
    """The messages that were sent, once there are so many, and no more come."""
    await chat.service.answers(number)
    await chat.settled()
    assert len(chat.service.sent) == number, chat.service.texts
    return chat.service.sent


async def says(chat: ChatAtWork, text: str, sender: str = "ann@example.org", **fields: Any) -> str:
    """Somebody writes; the answer to it."""
    number = len(chat.service.sent)
    await chat.service.write(text, sender, **fields)
    while True:
        for message in chat.service.sent[number:]:
            if message.place == sender and not message.edits:
                return message.text
        await chat.service.answers(len(chat.service.sent) + 1)


def home(folder: Path, people: str = PEOPLE, settings: str = "") -> Any:
    made = make_chat_home(folder, people=people)
    if settings:
        file = folder / "etc/narval.toml"
        file.write_text(settings + file.read_text())
    (folder / "recipes/w.xml").write_text(WORK)
    return made


@in_a_loop
async def test_C9_a_button_answers_and_all_messages_say_so(tmp_path: Path) -> None:
    async with chat_at_work(home(tmp_path)) as chat:
        item = await start(chat, "w.approve", b'<request what="a desk"/>')
        asked = list(await messages(chat, 2))
        shown = await chat.ask("work_item", item=item)
        assert [message.place for message in asked] == ["ann@example.org", "ben@example.org"]
        assert all(message.text.startswith(shown["text"]) for message in asked)
        assert [label for _, label in asked[0].buttons] == ["approve", "reject"]
        pressed = {"button": asked[0].buttons[0][0], "replies_to": f"s-{asked[0].id}"}
        await chat.service.write("", **pressed)
        sent = (await messages(chat, 5))[2:]
        by_place = {(message.place, bool(message.edits)): message for message in sent}
        assert by_place["ann@example.org", False].text == f"{item} is done: approve"
        assert by_place["ann@example.org", True].edits == f"s-{asked[0].id}"
        told = by_place["ben@example.org", True]
        assert told.edits == f"s-{asked[1].id}"
        assert told.text.startswith(f"{item} Approve a desk: it is done by ann since")
        assert not told.buttons
        answered = next(
            line for line in await chat.ask("history", run=item) if line["what"] == "ItemAnswered"
        )
        assert (answered["by"], answered["way"], answered["session"]) == ("ann", "chat", "phone/3")
        late = {"button": asked[1].buttons[1][0], "replies_to": f"s-{asked[1].id}"}
        assert (await says(chat, "", "ben@example.org", **late)).startswith(
            "Not taken: it is done by ann since"
        )


@in_a_loop
async def test_C10_a_chat_that_cannot_edit_gets_a_reply(tmp_path: Path) -> None:
    service = Service()
    service.can = CAPABILITIES - {"edit", "buttons"}
    async with chat_at_work(home(tmp_path), service) as chat:
        item = await start(chat, "w.approve", b'<request what="a desk"/>')
        asked = list(await messages(chat, 2))
        assert asked[0].buttons == ()
        assert "\n1 approve\n2 reject\n" in asked[0].text
        await chat.service.write("> 1 approve\n> 2 reject\n2")
        done, told = (await messages(chat, 4))[2:]
        if done.place == "ben@example.org":
            done, told = told, done
        assert done.text == f"{item} is done: reject"
        assert (told.place, told.edits, told.replies_to) == ("ben@example.org", "", f"s-{asked[1].id}")


@in_a_loop
async def test_C10_an_answer_is_told_once_where_no_buttons_are_to_go(tmp_path: Path) -> None:
    """A client of XMPP may show the correction of a message as one more message."""
    service = Service()
    service.can = CAPABILITIES - {"buttons"}
    async with chat_at_work(home(tmp_path), service) as chat:
        item = await start(chat, "w.approve", b'<request what="a desk"/>')
        await messages(chat, 2)
        await chat.service.write("1")
        sent = (await messages(chat, 4))[2:]
        of_ann = [message for message in sent if message.place == "ann@example.org"]
        assert [(message.text, message.edits) for message in of_ann] == [(f"{item} is done: approve", "")]
        assert [bool(message.edits) for message in sent if message not in of_ann] == [True]


@in_a_loop
async def test_C9_an_approval_is_answered_by_its_number(tmp_path: Path) -> None:
    people = f'ways = ["chat"]\n{PEOPLE.replace("[people.ben]", "[people.cid]").replace("ben@", "cid@")}'
    async with chat_at_work(home(tmp_path, people)) as chat:
        await start(chat, "w.pay", b"<bill/>")
        asked = (await chat.service.answers(2))[0]
        assert "Call: basic.copy" in asked.text
        assert (await says(chat, "1")).endswith("is done: approve")
        assert await chat.ask("memory", xpath="paid")


@in_a_loop
async def test_C9_a_form_goes_on_after_the_program_was_killed(tmp_path: Path) -> None:
    async with chat_at_work(home(tmp_path)) as chat:
        item = await start(chat, "w.order")
        await chat.service.answers(1)
        assert (await says(chat, "order")).startswith("How many?")
        assert (await says(chat, "12")).startswith("How many: expected 9 or less, found '12'")
        await chat.kill()
        chat.begin()
        assert (await says(chat, "3")).startswith("Which colour?\n1 red\n2 green")
        assert await says(chat, "2") == f"{item} is done: order"
        (answer,) = await chat.ask("memory", xpath="decision")
        assert "<many>3</many><colour>green</colour>" in answer["xml"]


@in_a_loop
async def test_C9_who_may_grant_does_so_by_chat(tmp_path: Path) -> None:
    made = home(tmp_path, f'ways = ["chat"]\n{PEOPLE}', settings='grants = "ask"\n')
    (tmp_path / "recipes/trust.xml").write_text((shipped() / "recipes/trust.xml").read_text())
    (tmp_path / "recipes/send.xml").write_text(
        '<recipe group="w" name="send" start_step="send" end_step="send">'
        '<step id="send" type="action" target="chat.send"/></recipe>'
    )
    async with chat_at_work(made) as chat:
        (asked,) = await messages(chat, 1)
        assert ("w.send" in asked.text, asked.place) == (True, "ann@example.org")
        assert "<need>host here</need>" in asked.text, "the server of the chat"
        (row,) = await chat.ask("worklist", every=True)
        grants = f"answer {row['item']} grant"
        assert "that is for the owner of the home and operators" in await says(
            chat, grants, "ben@example.org"
        )
        assert "that is for people with work" in await says(chat, grants, "rob@example.org")
        assert (await says(chat, "grant")).endswith("is done: grant")
        await start(chat, "w.send", b'<chat-out to="ann">Hello</chat-out>')
        async with asyncio.timeout(60):
            while "Hello" not in chat.service.texts:
                await asyncio.sleep(0.01)


TELLS = """<recipe group="w" name="tell" start_step="read" end_step="send">
  <step id="read" type="action" target="files.read_text">
    <arguments><file path="data/note"/></arguments>
  </step>
  <step id="send" type="action" target="chat.send">
    <arguments><chat-out to="rob">It says: {$read}</chat-out></arguments>
  </step>
  <transition id="t"><in idref="read"/><out idref="send"/></transition>
</recipe>"""


@in_a_loop
async def test_C9_C11_what_came_from_outside_is_sent_by_chat_once_somebody_says_so_there(
    tmp_path: Path,
) -> None:
    made = home(tmp_path, f'ways = ["chat"]\n{PEOPLE}')
    (tmp_path / "etc/trust.toml").write_text('[[rule]]\nfrom = "file"\naction = "chat.send"\nthen = "ask"\n')
    (tmp_path / "recipes/trust.xml").write_text((shipped() / "recipes/trust.xml").read_text())
    (tmp_path / "recipes/tell.xml").write_text(TELLS)
    (tmp_path / "data/note").write_text("[*click*](https://x.example) @all")
    async with chat_at_work(made) as chat:
        await start(chat, "w.tell")
        (asked,) = await messages(chat, 1)
        assert ("Call: chat.send" in asked.text, asked.place) == (True, "ann@example.org")
        assert "is labelled file; the rule on line 1 of etc/trust.toml asks" in asked.text
        (row,) = await chat.ask("worklist", every=True)
        for words in ("show {}", "answer {} once", "answer {} always"):
            answered = await says(chat, words.format(row["item"]), "ben@example.org")
            assert f"there is no item {row['item']} that you may see" in answered
        assert re.fullmatch(r"\d+ is done: once", await says(chat, "once"))
        async with asyncio.timeout(60):
            while "It says: [*click*](https://x.example) @all" not in chat.service.texts:
                await asyncio.sleep(0.01)


@in_a_loop
async def test_C9_a_long_text_comes_whole_in_several_messages(tmp_path: Path) -> None:
    async with chat_at_work(home(tmp_path)) as chat:
        item = await start(
            chat, "w.approve", b'<request what="a desk">' + b"so it is " * 1000 + b"</request>"
        )
        await messages(chat, 6)
        asked = [message for message in chat.service.sent if message.place == "ann@example.org"]
        assert [bool(message.buttons) for message in asked] == [False, False, True]
        assert all(len(message.text) <= 4000 for message in asked)
        whole = " ".join(message.text.removeprefix("| ") for message in asked)
        assert whole.count("so it is") == 1000
        assert asked[1].text.startswith("| "), "no part of a value looks like words of ours"
        assert await says(chat, "approve", replies_to=f"s-{asked[0].id}") == f"{item} is done: approve"
        await chat.settled()
        edited = [message.edits for message in chat.service.sent if message.edits]
        assert f"s-{asked[-1].id}" in edited


@in_a_loop
async def test_C9_work_of_another_agent_is_answered_where_it_was_asked(tmp_path: Path) -> None:
    made = home(tmp_path)
    (tmp_path / "agents/bob/recipes").mkdir(parents=True)
    (tmp_path / "agents/bob/recipes/w.xml").write_text(WORK)
    async with chat_at_work(made) as chat:
        run = await chat.ask("start", name="w.order", agent="bob", acting_as="rob")
        item = run["eid"]
        await chat.service.answers(1)
        assert (await says(chat, "reject")).startswith("How many?")
        assert (await says(chat, "-")).startswith("Which colour?")
        assert await says(chat, "-") == f"{item} is done: reject"
        (answer,) = await chat.ask("memory", xpath="decision", agent="bob")
        assert 'way="chat"' in answer["xml"]


@in_a_loop
async def test_C13_what_is_answered_in_a_room_is_told_between_two(tmp_path: Path) -> None:
    room = "team@rooms.example.org"
    made = make_chat_home(tmp_path, f'rooms = ["{room}"]\ncalled = "Jarvis"\n')
    (tmp_path / "recipes/w.xml").write_text(WORK)
    async with chat_at_work(made) as chat:
        item = await start(chat, "w.approve", b'<request what="a desk"/>')
        await messages(chat, 2)
        await chat.service.write(f"Jarvis: answer {item} approve", room=room, place=room)
        sent = (await messages(chat, 5))[2:]
        assert {message.place for message in sent} == {"ann@example.org", "ben@example.org"}
        assert f"{item} is done: approve" in [message.text for message in sent]
        await chat.service.write("Jarvis: 1", room=room, place=room)
        assert "Nothing waits" not in (await chat.service.answers(6))[5].text, (
            "a number alone is no answer there"
        )


@in_a_loop
async def test_C9_the_page_on_approving_by_chat_goes_as_it_says(tmp_path: Path) -> None:
    page = ROOT / "docs" / "how-to" / "approve-by-chat.md"
    made = make_chat_home(tmp_path)
    for _, name, text in blocks(page):
        if name:
            (tmp_path / name.removeprefix("~/.narval/")).write_text(text)
    assert check_home(made) == []
    (note,) = re.findall(r"echo '(.*)' >note.xml", page.read_text())
    async with chat_at_work(made) as chat:
        await start(chat, "home.publish", note.encode(), acting_as="ann")
        asked = (await chat.service.answers(1))[0]
        assert "Call: files.write" in asked.text
        assert "\n1 approve\n2 reject\n\nAnswer with a number or a word.\n" in asked.text
        assert re.fullmatch(r"\d+ is done: approve", await says(chat, "1"))
        async with asyncio.timeout(60):
            while not (tmp_path / "shared/note.txt").exists():
                await asyncio.sleep(0.01)


@in_a_loop
async def test_what_is_secret_is_neither_told_nor_answered_by_chat(tmp_path: Path) -> None:
    made = home(tmp_path)
    (tmp_path / "etc/trust.toml").write_text('[secret]\nhealth = "note"\n')
    async with chat_at_work(made) as chat:
        item = await start(chat, "w.look", b"<note>HIV positive</note>")
        (asked,) = await messages(chat, 1)
        assert (f"{item} w.look: Rules of the home withhold it" in asked.text, asked.buttons) == (True, ())
        for text in ("yes", "1", f"answer {item} yes", f"show {item}", "work", "status"):
            assert "HIV" not in await says(chat, text)
        assert (await chat.ask("work_item", item=item))["state"] == "offered"
