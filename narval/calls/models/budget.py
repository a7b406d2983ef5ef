"""Budgets: the daily cost of language models, written to `var/models.db` before each call, so that a crash
loses nothing.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from functools import cache
from pathlib import Path

from narval.calls.context import now
from narval.core.errors import ActionError
from narval.files.outside.services import LanguageModel

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
            ledger.execute("DELETE FROM spent WHERE day < ?", (self._before(KEPT_DAYS),))
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

    def _before(self, days: int) -> str:
        return (self._now.date() - timedelta(days=days)).isoformat()

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
