"""Language models: requests by the OpenAI chat protocol, and their daily cost.

An answer is read as it arrives, up to the requested number of tokens. The cost is written to `var/models.db`
before each call, so that a crash loses nothing.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, TypeGuard

from narval.calls.context import call, fetch, now, sleep
from narval.core.elements.own_elements import xml_safe
from narval.core.errors import ActionError
from narval.files.outside.services import LanguageModel
from narval.system.fetch import Fetched, FetchError
from narval.system.secret import without_given

MOST_BYTES = 4_000_000
"""The most bytes of an answer, including the protocol's overhead."""
LONGEST_LINE = 200_000
TOLD_EVERY = 200
"""Characters between two progress reports."""
LONGEST_WAIT = 60.0
"""Seconds that a model may ask to wait within one call."""
MOST_WAITS = 3
USUAL_SECONDS = 120.0
"""Seconds that one answer may take, if the settings do not say."""


class Reply:
    """The answer of a model so far: its `text`, whether it is complete, and the cost that it reports."""

    def __init__(self) -> None:
        self.text = ""
        self.is_over = self.is_cut = False
        self.is_free = True
        """True while the model has certainly not worked: nothing was sent, or it was refused."""
        self._said: tuple[int, int] | None = None
        self._told = 0

    def take(self, message: object) -> None:
        """Add a whole answer, or a piece of a stream. Raises ActionError for anything else."""
        if not isinstance(message, dict):
            raise _failed("it answered something that is no message of the protocol")
        if message.get("error"):
            raise _failed(f"it gave up: {_words(message['error'])}")
        choices = message.get("choices")
        for choice in choices[:1] if isinstance(choices, list) else []:
            self._choose(choice if isinstance(choice, dict) else {})
        self.note_usage(message)

    def note_usage(self, message: Mapping[str, Any]) -> None:
        """Record the cost that a message reports, if any."""
        usage = message.get("usage")
        if isinstance(usage, dict):
            sent, came = usage.get("prompt_tokens"), usage.get("completion_tokens")
            if _is_count(sent) and _is_count(came):
                self._said = sent, came

    def _choose(self, choice: Mapping[str, Any]) -> None:
        said = choice.get("delta") or choice.get("message")
        piece = said.get("content") if isinstance(said, dict) else None
        if isinstance(piece, str):
            self.text += piece
        if isinstance(reason := choice.get("finish_reason"), str):
            self.is_over, self.is_cut = True, reason == "length"

    def used(self, prompt: int) -> tuple[int, int]:
        """The tokens sent and answered: never far fewer than the text received suggests, and none for a
        refused request.
        """
        if self.is_free and not self.text:
            return self._said or (0, 0)
        sent, came = self._said or (prompt, tokens_of(self.text))
        return max(sent, prompt // 8), max(came, tokens_of(self.text) // 8)

    def tell(self) -> None:
        """Report the number of characters received."""
        if len(self.text) - self._told >= TOLD_EVERY:
            self._told = len(self.text)
            call().progress(self._told)


class _OverError(Exception):
    """The answer is complete; stop reading."""


class _Stream:
    """The pieces of an answer as they arrive: lines of `data:`, or one JSON object."""

    def __init__(self, reply: Reply, most: int) -> None:
        self._reply, self._most, self._rest = reply, most, bytearray()
        self.is_stream = False

    def hear(self, piece: bytes) -> None:
        """Add some bytes. Raises _OverError at the end of a stream, ActionError for an invalid one."""
        first, *others = piece.split(b"\n")
        self._rest += first  # in place: a server may send single bytes
        for other in others:
            self._line(bytes(self._rest).strip())
            self._rest = bytearray(other)
        if self.is_stream and len(self._rest) > LONGEST_LINE:
            raise _failed("a line of its answer has no end")
        if len(self._reply.text) > self._most:
            raise _failed(f"it goes on beyond the {self._most:,} characters that it was allowed")
        self._reply.tell()

    def _line(self, line: bytes) -> None:
        if not line.startswith(b"data:"):
            return
        self.is_stream = True
        data = line[5:].strip()
        if data == b"[DONE]":
            self._reply.is_over = True
            raise _OverError
        self._reply.take(_parsed(data))


class Chat:
    """A client of one model of the settings, with a time limit for each answer."""

    def __init__(self, model: LanguageModel, seconds: float) -> None:
        self._model, self._seconds = model, seconds

    async def ask(
        self, messages: list[dict[str, str]], reply: Reply, tokens: int, schema: dict[str, Any] | None
    ) -> None:
        """Have messages answered in at most `tokens` tokens, by a JSON Schema if there is one.

        Raises ActionError; the reply then has what had arrived.
        """
        form: dict[str, Any] = {"max_tokens": tokens, "stream_options": {"include_usage": True}}
        if schema is not None:
            named = {"name": "answer", "strict": True, "schema": schema}
            form["response_format"] = {"type": "json_schema", "json_schema": named}
        waits = 0
        while True:
            body = {"model": self._model.model, "messages": messages, "stream": True, **form}
            answer = await self._posted(body, reply, 40 * tokens + 1_000)
            if answer is None:
                return
            wait = _patience(answer)
            if answer.status in (400, 422) and form:
                form = {}  # many servers support only part of the protocol
            elif wait is not None and waits < MOST_WAITS:
                waits += 1
                await sleep(wait)
            else:
                raise self._refused(answer)

    async def _posted(self, body: dict[str, Any], reply: Reply, most: int) -> Fetched | None:
        """Post a request; return None if it was answered, else the answer with another status."""
        stream = _Stream(reply, most)
        reply.is_free = False  # also if this is interrupted
        try:
            answer = await fetch(
                "chat/completions",
                method="POST",
                headers={"Content-Type": "application/json", "Accept": "text/event-stream, application/json"},
                body=json.dumps(body).encode(),
                service=self._model,
                most=MOST_BYTES,
                seconds=self._seconds,
                silent=self._seconds,
                received=stream.hear,
            )
        except _OverError:
            return None
        except ActionError as error:
            reply.is_free = isinstance(error, FetchError) and not error.was_sent
            if not str(error).startswith("["):
                raise ActionError(f"{self._model}: {error}", error.kind, final=error.final) from None
            raise
        if answer.status != 200:
            reply.is_free = True
            with suppress(ActionError):
                if isinstance(said := _parsed(answer.body), dict):
                    reply.note_usage(said)
            return answer
        if not stream.is_stream:
            reply.take(_parsed(answer.body))
            reply.is_over = reply.is_over or bool(reply.text)
        if not reply.is_over:
            raise _failed(f"{self._model}: its answer broke off after {len(reply.text)} characters")
        return None

    def _refused(self, answer: Fetched) -> ActionError:
        """The error for an answer with an error status."""
        try:
            said = _words(json.loads(answer.body)["error"])
        except (ValueError, LookupError, TypeError, RecursionError):
            said = answer.reason
        what = f"{self._model}: it answered {answer.status}: {xml_safe(without_given(said))}"
        if answer.status == 429:
            return ActionError(f"{what}; it is asked too often", "model-busy")
        if answer.status >= 500 or answer.status == 408:
            return ActionError(what, "model-failed")
        hint = "; see its secret in etc/narval.toml" if answer.status in (401, 403) else ""
        hint = "; see its url and model in etc/narval.toml" if answer.status == 404 else hint
        return ActionError(what + hint, "model-refused", final=True)


async def ask_model(
    model: LanguageModel,
    messages: list[dict[str, str]],
    tokens: int,
    schema: dict[str, Any] | None = None,
    reply: Reply | None = None,
) -> Reply:
    """Ask a model of the settings; return its answer to messages (`role` and `content`) in at most `tokens`
    tokens, by a JSON Schema if there is one. The cost is estimated before, and corrected afterwards.

    Raises ActionError: `over-budget`, `model-refused` (final); `model-busy`, `model-failed`, `unreachable` if
    another attempt may help. A `reply` then has what had arrived.
    """
    reply, budget = reply or Reply(), Budget(model, call().home)
    sent = sum(tokens_of(message["content"]) for message in messages)
    number = await asyncio.to_thread(budget.reserve, sent, tokens)
    try:
        await Chat(model, model.seconds or USUAL_SECONDS).ask(messages, reply, tokens, schema)
    finally:
        budget.correct(number, *reply.used(sent))
    return reply


def _patience(answer: Fetched) -> float | None:
    """The seconds after which a server wants to be asked again, if it says so and they are few."""
    after = answer.retry_after(now().timestamp())
    return after if answer.status in (429, 503) and after is not None and after <= LONGEST_WAIT else None


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 1_000_000_000


def _parsed(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise _failed("it answered something that is no JSON") from None


def _words(said: object) -> str:
    """The message of an error that a server reports, on one line of at most 300 characters."""
    if isinstance(said, dict):
        said = said.get("message")
    return " ".join(str(said).split())[:300]


def _failed(message: str) -> ActionError:
    return ActionError(message, "model-failed")


# --- the daily cost -------------------------------------------------------------------------------------

FILE = "var/models.db"
KEPT_DAYS = 62
_TABLE = """
CREATE TABLE IF NOT EXISTS spent (
    call INTEGER PRIMARY KEY,
    model TEXT NOT NULL,
    day TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    money REAL NOT NULL
)
"""


def tokens_of(text: str) -> int:
    """An estimate of the tokens of a text, usually too high: one for three bytes."""
    return len(text.encode("utf-8", "replace")) // 3 + 4


class Budget:
    """The cost of one model on the present day in the home's time zone, and its limits."""

    def __init__(self, model: LanguageModel, home: Path | None) -> None:
        self._model, self._home = model, home
        self._now = now()
        self._day = self._now.date().isoformat()

    def reserve(self, prompt: int, answered: int) -> int:
        """Record an estimated cost before a call is made, and return its number. Raises ActionError
        (`over-budget`).
        """
        model, tokens = self._model, prompt + answered
        money = self.cost(prompt, answered)
        with self._ledger() as ledger:
            first = self._now.date() - timedelta(days=KEPT_DAYS)
            ledger.execute("DELETE FROM spent WHERE day < ?", (first.isoformat(),))
            spent_tokens, spent_money = self._spent(ledger)
            if model.tokens is not None and spent_tokens + tokens > model.tokens:
                raise self._over("tokens", f"{model.tokens:,}", f"{spent_tokens:,}", f"{tokens:,}")
            if model.money is not None and spent_money + money > model.money:
                raise self._over("money", f"{model.money:g}", f"{spent_money:.4g}", f"{money:.4g}")
            row = (model.name, self._day, tokens, money)
            added = "INSERT INTO spent (model, day, tokens, money) VALUES (?, ?, ?, ?)"
            return ledger.execute(added, row).lastrowid or 0

    def correct(self, call: int, prompt: int, answered: int) -> None:
        """Replace the estimate of a call by its actual cost."""
        row = (prompt + answered, self.cost(prompt, answered), call)
        with self._ledger() as ledger:
            ledger.execute("UPDATE spent SET tokens = ?, money = ? WHERE call = ?", row)

    def told(self) -> dict[str, str]:
        """The attributes that describe the budget."""
        with self._ledger() as ledger:
            tokens, money = self._spent(ledger)
        said = {"model": self._model.name, "day": self._day, "tokens": str(tokens), "money": f"{money:.6g}"}
        if self._model.tokens is not None:
            said["tokens-left"] = str(max(self._model.tokens - tokens, 0))
        if self._model.money is not None:
            said["money-left"] = f"{max(self._model.money - money, 0):.6g}"
        return said

    def cost(self, prompt: int, answered: int) -> float:
        """The price of tokens sent and answered."""
        return (prompt * self._model.input_price + answered * self._model.output_price) / 1_000_000

    def _spent(self, ledger: sqlite3.Connection) -> tuple[int, float]:
        sums = (
            "SELECT COALESCE(SUM(tokens), 0), COALESCE(SUM(money), 0) FROM spent WHERE model = ? AND day = ?"
        )
        tokens, money = ledger.execute(sums, (self._model.name, self._day)).fetchone()
        return int(tokens), float(money)

    def _over(self, what: str, most: str, spent: str, more: str) -> ActionError:
        midnight = (self._now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
        return ActionError(
            f"{self._model}: a day may cost {most} {what}; {spent} are spent, and this may take {more} more; "
            f"it goes on at {midnight.isoformat()}, or with more {what} in etc/narval.toml",
            "over-budget",
            final=True,
        )

    @contextmanager
    def _ledger(self) -> Iterator[sqlite3.Connection]:
        """The ledger, within one transaction that is on the disk at the end."""
        if self._home is None:
            lock, ledger = _in_memory()
            with lock, ledger:
                yield ledger
            return
        file = self._home / FILE
        file.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(file, timeout=30.0, isolation_level="IMMEDIATE")) as ledger:
            ledger.execute(_TABLE)
            with ledger:
                ledger.execute("BEGIN IMMEDIATE")
                yield ledger


@cache
def _in_memory() -> tuple[threading.Lock, sqlite3.Connection]:
    """The ledger of homes in memory, which is gone when the program ends."""
    ledger = sqlite3.connect(":memory:", check_same_thread=False)
    ledger.execute(_TABLE)
    return threading.Lock(), ledger
