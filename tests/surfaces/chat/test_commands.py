"""Commands and reminders by chat, as people write them on a telephone (C5, C6)."""

from __future__ import annotations

import re
import time
from datetime import datetime
from pathlib import Path

from narval.core.definitions.reminder import shown_moment
from narval.files.home import Home
from narval.files.shipped import shipped
from narval.surfaces.chat.commands import TABLE
from narval.surfaces.chat.short_forms import MOST_LINES
from tests.daemon.at_work import in_a_loop
from tests.surfaces.chat.at_work import SETTINGS, ChatAtWork, chat_at_work, make_chat_home

BEN, ROB = "ben@example.org", "rob@example.org"
RECIPES = """<cookbook group="w">
<recipe name="desk" start_step="ask" end_step="ask">
  <step id="ask" type="work"><work>
    <title>A desk for {$wish/@price} euro?</title><input id="wish"><match>wish</match></input>
    <outcome name="approve"/><outcome name="reject"/><field name="reason"/>
  </work></step>
</recipe>
<work name="on"><title>Go on?</title><for people="ann"/><outcome name="yes"/><outcome name="no"/>
  <ways names="chat"/></work>
<recipe name="out" start_step="wait" end_step="run">
  <step id="wait" type="action" target="basic.nothing"/>
  <step id="run" type="action" target="w.run"/>
  <transition id="t"><in idref="wait"/><out idref="run"/>
    <condition><match>never</match></condition></transition>
</recipe>
<recipe name="fails" start_step="f" end_step="f"><step id="f" type="action" target="w.fail"/></recipe>
<recipe name="note" start_step="n" end_step="n"><step id="n" type="action" target="basic.nothing"/></recipe>
</cookbook>"""
FAR = "Pacific/Kiritimati"
MODULE = """
from narval import ActionError, Input, Needs, action

@action(needs=Needs(programs=["true"]))
def run():
    pass

@action(inputs=[Input("note", "note")], pure=True)
def fail(note):
    raise ActionError(f"cannot use {note.text}", "no-teeth", final=True)
"""


def home_of(folder: Path, **files: str) -> Home:
    home = make_chat_home(folder)
    for name, text in {"recipes/w.xml": RECIPES, "modules/w.py": MODULE, **files}.items():
        (folder / name).write_text(text)
    return home


async def asked(chat: ChatAtWork) -> int:
    """An item of work that waits; its number."""
    await chat.ask("start", name="w.desk", elements=[b"<wish price='70'/>"])
    while not (rows := await chat.ask("worklist", every=True)):
        pass
    return int(rows[0]["item"])


def numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"^(\d+)", text, re.MULTILINE)]


@in_a_loop
async def test_what_stands_is_told_in_short_forms_with_numbers_that_commands_take(tmp_path: Path) -> None:
    async with chat_at_work(home_of(tmp_path)) as chat:
        item = await asked(chat)
        status = await chat.says("Status")
        assert status.splitlines()[0].endswith("under way")
        assert status.splitlines()[-1] == "`work` has what you are asked"
        work = await chat.says("work")
        assert f"{item} A desk for 70 euro?" in work
        assert numbers(work) == [item]
        show = await chat.says(f"show {item}")
        assert f"answer {item} approve | reject reason=…" in show
        assert f"{item - 1} w.desk running" in await chat.says("runs")
        assert "A desk" not in (run := await chat.says(f"show {item - 1}"))
        assert run.startswith(f"{item - 1} w.desk is running, since today")
        assert "ask" in await chat.says(f"why {item - 1}")
        (wish,) = numbers(await chat.says("memory wish"))
        assert "<wish" in await chat.says(f"show {wish}")
        assert await chat.says("memory lamp") == "no lamp in memory"
        added = await chat.says("add <lamp room='hall'/>")
        assert added.startswith("added: ")
        assert "hall" in await chat.says(f"show {added.split()[1]}")
        for answer in chat.service.texts:
            assert len(answer.splitlines()) <= MOST_LINES


@in_a_loop
async def test_an_element_that_is_secret_is_not_told_by_chat(tmp_path: Path) -> None:
    async with chat_at_work(home_of(tmp_path, **{"etc/trust.toml": '[secret]\nhealth = "note"\n'})) as chat:
        added = await chat.says("add <note>bad teeth</note>")
        (note,) = numbers(added.removeprefix("added: "))
        shown = await chat.says(f"show {note}")
        assert shown == f"{note} note is secret\nnot in a chat: `narval memory {note}`"
        assert await chat.says("memory note") == f"newest note:\n{note} (secret)"
        assert f"element {note} has secret elements of its home" in await chat.says(f"why {note}")
        run = (await chat.ask("start", name="w.fails"))["eid"]
        while (await chat.ask("show", run=run))["phase"] == "active":
            pass
        for words in ("runs", f"show {run}", f"why {run}", "status"):
            assert "teeth" not in (answer := await chat.says(words)), words
            assert str(run) in answer


@in_a_loop
async def test_what_one_may_not_do_is_refused_in_the_words_of_the_operation(tmp_path: Path) -> None:
    async with chat_at_work(home_of(tmp_path)) as chat:
        item = await asked(chat)
        for sender, words, refusal in (
            (BEN, "status", "ben may not see what the home remembers and does: that is for readers and oper"),
            (
                BEN,
                "start w.note",
                "ben may not alter what the home remembers and does: that is for operators; `web` in",
            ),
            (
                BEN,
                f"cancel {item - 1}",
                "ben may not alter what the home remembers and does: that is for operators; `web` in",
            ),
            (BEN, "show 1", "there is no item 1 that you may see"),
            (
                ROB,
                "start w.out",
                "rob may not alter what the home remembers and does: that is for operators; `web` in",
            ),
            (
                ROB,
                "add <x/>",
                "rob may not alter what the home remembers and does: that is for operators; `web` in",
            ),
            (ROB, "reminders", "no reminders to come"),
            (
                ROB,
                "remind me in 2h: x",
                "rob may not do what people do themselves, such as answer work: that is for people",
            ),
        ):
            assert refusal in await chat.says(words, sender), words
        assert "A desk" in await chat.says("work", BEN)
        assert await chat.ask("count", xpath="x") == {"count": 0}
        for sender, there, others in ((BEN, "reminders", "start"), (ROB, "runs", "answer")):
            told = await chat.says("help", sender)
            assert there in told
            assert others not in told
        for row in TABLE:
            assert row.usage in await chat.says("help")


@in_a_loop
async def test_what_acts_outside_is_started_and_ended_after_a_yes(tmp_path: Path) -> None:
    async with chat_at_work(home_of(tmp_path)) as chat:
        assert "w.note has started" in await chat.says("start w.note")

        async def runs() -> list[str]:
            return [row["state"] for row in await chat.ask("runs") if row["name"] == "w.out"]

        assert await chat.says("start w.out") == "w.out acts outside the home. Start it? (yes or no)"
        assert await chat.says("no") == "Nothing was done."
        await chat.says("start w.out")
        assert "run" in await chat.says("status"), "any other line takes the question back"
        assert "nothing waits for it" in await chat.says("yes")
        assert await runs() == []
        await chat.says("start w.out")
        assert "item" in await chat.says("", button="999.1.00000000"), "a button of work is another line too"
        assert "nothing waits for it" in await chat.says("yes")
        assert await runs() == []
        await chat.says("start w.out")
        buttons = {label: data for data, label in chat.service.sent[-1].buttons}
        await chat.settled()
        await chat.kill()
        chat.begin()
        started = await chat.says("", button=buttons["yes"])
        assert "w.out has started" in started
        assert await runs() == ["running"]
        number = numbers(started)[0]
        assert "End it?" in await chat.says(f"cancel {number}")
        assert await chat.says("Yes!") == f"{number} w.out is cancelled"
        assert "no definition" in await chat.says("start w.nothing") or "w.nothing" in chat.service.texts[-1]


@in_a_loop
async def test_a_yes_after_another_question_is_not_taken_for_the_command(tmp_path: Path) -> None:
    async with chat_at_work(home_of(tmp_path)) as chat:
        await chat.says("start w.out")
        await chat.settled()
        item = (await chat.ask("start", name="w.on"))["eid"]
        while "Go on?" not in chat.service.texts[-1]:
            await chat.settled()
        assert await chat.says("yes") == f"Which one? Write `answer {item} yes`, or again `start w.out`"
        assert "w.out" not in [row["name"] for row in await chat.ask("runs")]
        assert await chat.says("yes") == f"{item} is done: yes"


@in_a_loop
async def test_the_end_of_a_claim_is_told_in_the_zone_of_the_home(tmp_path: Path) -> None:
    settings = f'timezone = "{FAR}"\n{SETTINGS}'
    async with chat_at_work(home_of(tmp_path, **{"etc/narval.toml": settings})) as chat:
        item = (await chat.ask("start", name="w.on"))["eid"]
        while not chat.service.texts or "Go on?" not in chat.service.texts[-1]:
            await chat.settled()
        claimed = await chat.says(f"claim {item}")
        until = datetime.fromisoformat((await chat.ask("work_item", item=item))["claimed"]["until"])
        assert claimed == f"{item} is yours until {shown_moment(until.timestamp(), time.time(), FAR)}"


@in_a_loop
async def test_other_lines_are_about_something_else(tmp_path: Path) -> None:
    async with chat_at_work(home_of(tmp_path)) as chat:
        for line in ("show me the way", "work is done", "start the car", "at home", "memory of a dream"):
            assert "nothing waits for it" in await chat.says(line), line
        for line, usage in (("show", "`show N`"), ("snooze", "`snooze N 1h`"), ("add", "`add <xml>`")):
            assert usage in await chat.says(line)


@in_a_loop
async def test_a_reminder_is_told_on_the_same_chat_put_off_and_forgotten(tmp_path: Path) -> None:
    reminders = (shipped() / "recipes/reminders.xml").read_text()
    async with chat_at_work(home_of(tmp_path, **{"recipes/reminders.xml": reminders})) as chat:
        assert "no reminders to come" in await chat.says("reminders")
        assert re.fullmatch(
            r"reminder \d+ .* 17:30: call Ben", await chat.says("remind me at 17:30: call Ben")
        )
        second = await chat.says("Every monday 8:00: the bins", BEN)
        assert "every mon 8:00: the bins" in second
        assert "expected a length of time after `in`" in await chat.says("remind me in a while: tea")
        (number,) = numbers(await chat.says("reminders"))
        assert "call Ben" in await chat.says(f"show {number}")
        assert "18:30: call Ben" in (put_off := await chat.says(f"snooze {number} 1h"))
        assert "call Ben" in await chat.says(f"forget {numbers(put_off)[0]}")
        assert "no reminders to come" in await chat.says("reminders")
        count = len(chat.service.sent)
        xml = b"<reminder at='2020-01-01T09:00' person='ann' chat='phone'>the kettle</reminder>"
        await chat.ask("add", elements=[xml])
        assert (await chat.service.answers(count + 1))[count].text == "Reminder: the kettle"
        assert chat.service.sent[count].place == "ann@example.org"
        await chat.settled()
        assert len(chat.service.sent) == count + 1


@in_a_loop
async def test_in_a_room_what_is_private_is_told_between_two(tmp_path: Path) -> None:
    home = home_of(tmp_path)
    settings = tmp_path / "etc/narval.toml"
    settings.write_text(settings.read_text().replace('server = "here"', 'server = "here"\nrooms = ["team"]'))
    async with chat_at_work(home) as chat:
        await asked(chat)
        await chat.says("help")  # so that an address is known
        await chat.says("narval: work", place="team", room="team")
        assert chat.service.sent[-1].place == "ann@example.org"
        await chat.says("narval: status", place="team", room="team")
        assert chat.service.sent[-1].place == "ann@example.org", "what is asked of people has a title"
        await chat.says("narval: help", place="team", room="team")
        assert chat.service.sent[-1].place == "team"
