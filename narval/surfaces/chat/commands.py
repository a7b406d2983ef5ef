"""Commands of a chat, and reminders: operations, in short forms for a telephone.

A line is a command if it begins with the word of a row and continues as the row says. The operation refuses
what a person may not do, in its own words. Answers to work are in the table for `help`; `answers.py` handles
them.

`start` and `cancel` ask for confirmation once if the definition acts outside. The last question to each
person is recorded with the message that asks it, so a yes is valid even if the program was restarted in
between. Any other message cancels it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, get_args

from narval.core.agreeing import Role, roles
from narval.core.definitions.reminder import may_be_reminder
from narval.core.elements.canonical import text_bytes
from narval.core.errors import DaemonGoneError, NarvalError
from narval.people.chat.messages import AskedBack, Reply
from narval.surfaces.chat import short_forms
from narval.surfaces.chat.line import Dealt, Handler, Line

READERS, WORKERS, OPERATORS = roles("read"), roles("people"), roles("write")
EVERYBODY: tuple[Role, ...] = get_args(Role)
"""The rights on pages that allow a command."""

NUMBER = r"(?P<number>[0-9]{1,18})"
NAME = r"(?P<name>[\w.:-]+)"


class Question(NamedTuple):
    """The confirmation that a command requires before it is done."""

    text: str


class ChatCommand(NamedTuple):
    """A command of a chat."""

    word: str
    """The word that it begins with."""
    form: str
    """The rest of it, as help shows it."""
    does: str
    """Its effect, in one line."""
    roles: tuple[Role, ...]
    """The rights on pages that allow it."""
    rest: str = ""
    """The pattern of its rest."""
    act: Callable[[Line, re.Match[str]], Awaitable[str | Question]] | None = None
    """The function that does it; None if another module handles it."""
    is_private: bool = True
    """True if its answer is not shown in a room."""

    @property
    def usage(self) -> str:
        """The command as people write it."""
        return f"{self.word} {self.form}".rstrip()


async def _status(line: Line, _: re.Match[str]) -> str:
    return short_forms.status(await line.ask("status"), _clock(line))


async def _work(line: Line, _: re.Match[str]) -> str:
    most = short_forms.MOST_LINES
    return short_forms.work(await line.ask("worklist", limit=most), _clock(line))


async def _show(line: Line, said: re.Match[str]) -> str:
    """Show an item of work, else a run, else an element."""
    number = int(said["number"])
    try:
        return short_forms.item(await line.ask("work_item", item=number), _clock(line))
    except DaemonGoneError:
        raise
    except NarvalError as error:
        refused = error
    if not may(line, READERS):
        raise refused
    try:
        return short_forms.run(await line.ask("show", run=number, secrets=[]), _clock(line))
    except DaemonGoneError:
        raise
    except NarvalError:
        return short_forms.element(await line.ask("element", eid=number))


async def _runs(line: Line, _: re.Match[str]) -> str:
    return short_forms.runs(
        await line.ask("runs", limit=short_forms.MOST_LINES, notices=False, secrets=[]), _clock(line)
    )


async def _why(line: Line, said: re.Match[str]) -> str:
    return short_forms.why(await line.ask("why", run=int(said["number"]), secrets=[]))


async def _memory(line: Line, said: re.Match[str]) -> str:
    page = await line.ask("elements", xpath=said["name"], current=True, limit=5)
    return short_forms.elements(said["name"], page["elements"])


async def _add(line: Line, said: re.Match[str]) -> str:
    added = await line.once("add", elements=[text_bytes(said["xml"])])
    numbers = ", ".join(map(str, added["eids"]))
    return "\n".join([f"added: {numbers}", *added.get("warnings", ())])


async def _start(line: Line, said: re.Match[str]) -> str | Question:
    name = said["name"]
    if not line.is_confirmed and may(line, OPERATORS) and await _acts_outside(line, name):
        return Question(f"{name} acts outside the home. Start it?")
    run = await line.once("start", name=name)
    return f"{run['eid']} {run['name']} has started; see `show {run['eid']}`"


async def _cancel(line: Line, said: re.Match[str]) -> str | Question:
    number = int(said["number"])
    if not line.is_confirmed and may(line, OPERATORS):
        run = await line.ask("show", run=number)
        if run["phase"] == "active" and await _acts_outside(line, run["name"]):
            return Question(f"{number} {run['name']} acts outside the home. End it?")
    run = await line.once("cancel", run=number)
    return f"{run['eid']} {run['name']} is {run['state']}"


async def _propose(line: Line, said: re.Match[str]) -> str:
    name = (await line.once("draft", wish=said["text"]))["name"]
    return (
        f"A model drafts {name}; nothing of it runs before it is accepted, at the terminal or on the pages "
        f"(narval proposals show {name})."
    )


async def _reminders(line: Line, _: re.Match[str]) -> str:
    return short_forms.reminders(await line.ask("reminders"))


async def _forget(line: Line, said: re.Match[str]) -> str:
    row = await line.once("forget_reminder", reminder=int(said["number"]))
    return f"{row['reminder']} is forgotten: {short_forms.short(row['text'])}"


async def _snooze(line: Line, said: re.Match[str]) -> str:
    row = await line.once("snooze", reminder=int(said["number"]), length=said["length"])
    return short_forms.reminder(row)


async def _help(line: Line, _: re.Match[str]) -> str:
    mine = {command.word: command.usage for command in TABLE if may(line, command.roles)}
    groups = ((title, [mine[word] for word in words if word in mine]) for title, words in GROUPS)
    lines = [f"{title}: {'; '.join(usages)}" for title, usages in groups if usages]
    example = ["For example: remind me at 17:30: call Ben"] if "remind me" in mine else []
    return "\n".join(["You can write:", *lines, *example])


TABLE = (
    ChatCommand("status", "", "how things stand", READERS, act=_status),
    ChatCommand("work", "", "what you are asked", EVERYBODY, act=_work),
    ChatCommand("show", "N", "an item, a run or an element", EVERYBODY, NUMBER, _show),
    ChatCommand("answer", "N OUTCOME [FIELD=VALUE …]", "answer what you are asked", WORKERS),
    ChatCommand("claim", "N", "take it for yourself", WORKERS),
    ChatCommand("release", "N", "give it back", WORKERS),
    ChatCommand(
        "remind me", "TIME: TEXT", "be told at a time, such as at 17:30 or every monday 8:00", WORKERS
    ),
    ChatCommand("reminders", "", "your reminders to come", WORKERS, act=_reminders),
    ChatCommand("forget", "N", "take a reminder back", WORKERS, NUMBER, _forget),
    ChatCommand("snooze", "N 1h", "put a reminder off", WORKERS, rf"{NUMBER}\s+(?P<length>\S.*)", _snooze),
    ChatCommand("runs", "", "the newest runs", READERS, act=_runs),
    ChatCommand("why", "N", "what a run waits for", READERS, NUMBER, _why),
    ChatCommand("start", "NAME", "start a definition", OPERATORS, NAME, _start),
    ChatCommand("cancel", "N", "end a run", OPERATORS, NUMBER, _cancel),
    ChatCommand("add", "<xml>", "add an element to memory", OPERATORS, r"(?P<xml><.*)", _add),
    ChatCommand("memory", "NAME", "the newest elements of a name", READERS, NAME, _memory),
    ChatCommand("propose", "TEXT", "have a model draft a definition", OPERATORS, r"(?P<text>.+)", _propose),
    ChatCommand("help", "", "what you can write", EVERYBODY, act=_help, is_private=False),
)
"""The commands, in the order of the help."""

GROUPS = (
    ("What you are asked", ("work", "show", "answer", "claim", "release")),
    ("Reminders", ("remind me", "reminders", "forget", "snooze")),
    ("How things stand", ("status", "runs", "why", "memory")),
    ("What is to be done", ("start", "cancel", "add", "propose")),
    ("This list", ("help",)),
)
"""The commands by purpose, as the help groups them."""

_BY_WORD = {command.word: command for command in TABLE if command.act is not None}
_LINE = re.compile(r"(?P<word>[A-Za-z]+)[^\S\n]*(?P<rest>.*)", re.DOTALL)


async def handle(line: Line) -> Dealt | None:
    """Carry out a command; None for a line that is not one. Raises NarvalError."""
    read = _LINE.fullmatch(line.text.strip())
    row = _BY_WORD.get(read["word"].lower()) if read is not None else None
    if read is None or row is None or row.act is None:
        return None
    rest = read["rest"].strip()
    private_to = line.name if row.is_private and line.is_in_room else ""
    if not rest and row.rest:
        return Dealt.saying(f"expected `{row.usage}`: {row.does}", private_to=private_to)
    said = re.fullmatch(row.rest, rest, re.DOTALL)
    if said is None:
        return None
    answer = await row.act(line, said)
    if isinstance(answer, Question):
        return ask_back(line, answer.text, line.text, private_to=private_to)
    return Dealt.saying(answer, private_to=private_to)


async def remind(line: Line) -> Dealt | None:
    """Set the reminder that a line asks for, to be sent in the same place; None for any other line.

    Raises NarvalError.
    """
    if not may_be_reminder(line.text):
        return None
    row = await line.once("remind", text=line.text, chat=line.chat.name, maybe=True)
    if not row:
        return None
    text = f"reminder {short_forms.reminder(row)}"
    return Dealt.saying(text, private_to=line.name if line.is_in_room else "")


def may(line: Line, roles: tuple[Role, ...]) -> bool:
    """True if the sender of a line has one of these rights on pages; the operations decide."""
    return line.person["web"] in roles


def _clock(line: Line) -> short_forms.Clock:
    """The clock of the sender of a line."""
    return short_forms.Clock(time.time(), line.person["zone"])


async def _acts_outside(line: Line, name: str) -> bool:
    """True if a definition needs something outside the home."""
    try:
        rows = (await line.ask("grants", name=name))["definitions"]
    except DaemonGoneError:
        raise  # unknown while the agent is away
    except NarvalError:
        return False  # there is none: starting it will say so
    return any(need["outside"] for row in rows for need in row["needs"])


# --- confirmation -------------------------------------------------------------------------------------------


SECONDS = 600.0
"""Seconds for which a question waits."""

YES, NO = "yes", "no"


def ask_back(line: Line, text: str, command: str, *, private_to: str = "") -> Dealt:
    """Ask the sender of a line whether to do a command."""
    number = line.taken.number
    buttons = tuple((f"{_token(number)}.{word}", word) for word in (YES, NO))
    reply = Reply(text=f"{text} ({YES} or {NO})", to=private_to, buttons=buttons)
    return Dealt((reply,), question=AskedBack(number=number, command=command, at=time.time()))


def doing(handlers: Sequence[Handler]) -> Handler:
    """The handler of a yes or a no to a confirmation, which passes the command to `handlers`."""

    async def handle(line: Line) -> Dealt | None:
        """Do the command in question if a line says yes; None for a line about something else."""
        asked = await line.asked()
        if (question := asked["question"]) is None or time.time() - question["at"] > SECONDS:
            return None
        token, _, word = line.message.button.partition(".")
        if not line.message.button:  # a reply to a message about an item is about that item
            word = "" if asked["about"] else line.text.strip().strip(".!").casefold()
        elif token != _token(question["number"]):
            word = ""
        if word not in (YES, NO):
            return None
        also = "" if line.message.button else await _also_answered(line, asked["since"], word)
        if also:
            text = f"Which one? Write `{also}`, or again `{question['command']}`"
            return Dealt.saying(text, private_to=line.name if line.is_in_room else "")
        text, command = "Nothing was done.", line.confirmed(question["command"])
        if word == YES:
            for one in handlers:
                if (dealt := await one(command)) is not None:
                    return dealt
            text = f"that is no command: {command.text}"
        return Dealt.saying(text, private_to=line.name if line.is_in_room else "")

    return handle


async def _also_answered(line: Line, items: Sequence[Mapping[str, Any]], word: str) -> str:
    """The answer to the first of some items of work that a word may answer as well; "" if there is none."""
    for row in items:
        try:
            item = await line.ask("work_item", item=row["item"], agent=row.get("agent", ""))
        except DaemonGoneError:
            raise
        except NarvalError:
            continue
        if word in (outcome["name"] for outcome in item["outcomes"]):
            return f"answer {row['item']} {word}"
    return ""


def _token(number: int) -> str:
    """The prefix of the data of buttons below a question."""
    return f"q{number}"
