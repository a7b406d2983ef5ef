"""Operations on processes: their tokens are completed, gone back to, looked at (sections 2, 8 and 11)."""

from __future__ import annotations

from typing import Any

import msgspec

from narval.definitions.process.attribute_types import kept
from narval.engines.commands import Answer
from narval.errors import (
    NotBacktrackableError,
    NotExecutingError,
    NoTokenError,
    RequestError,
    TokenCompleteError,
    TokenError,
)
from narval.operations.signals import say
from narval.runtime.agent.history import past
from narval.runtime.agent.replay import definition_of, state_of
from narval.runtime.agent.run import Run
from narval.runtime.calls.process_code.token import MOST_MEMBERS
from narval.runtime.daemon.daemon import Daemon

_REFUSALS: dict[str, type[TokenError]] = {
    "token-complete": TokenCompleteError,
    "no-token": NoTokenError,
    "ambiguous": NoTokenError,
    "cancelled": NotExecutingError,
    "not-executing": NotExecutingError,
    "not-backtrackable": NotBacktrackableError,
    "already-backtracked": NotBacktrackableError,
    "not-complete": NotBacktrackableError,
}
"""The error that each refusal of a process becomes; of any other, a TokenError."""


class OfProcesses:
    """The operations that only processes know."""

    daemon: Daemon

    def run_of(self, eid: int) -> Run:
        """The run of that number. Raises RequestError."""
        raise RequestError(f"there is no run {eid}")  # what inherits this knows its runs

    async def complete(
        self,
        run: int,
        node: str | None = None,
        token: int | None = None,
        arcs: list[str] | None = None,
        asynchronous: bool = False,
        set: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Complete a token, by its id or as the active one on a node: it leaves on the arcs of these names.

        With `set` (name, count, environment, members) it leaves as a new set of tokens. Asynchronously, what
        leaves waits until `execute_queued`.
        """
        made = new_set(set) if set is not None else None
        said = _of_token(node, token, arcs=arcs, asynchronous=asynchronous, set=made)
        return await self._tell(run, "complete", said)

    async def backtrack(self, run: int, node: str | None = None, token: int | None = None) -> dict[str, Any]:
        """Go back to where a token was active, by its id or as the last complete one on a node."""
        return await self._tell(run, "backtrack", _of_token(node, token))

    async def tokens(self, run: int, at: int | None = None) -> dict[str, Any]:
        """All tokens of a process, on nodes and on arcs, and its sets; as after line `at` of its history."""
        parts = self._parts(run, at)
        return {key: parts[key] for key in ("tokens", "arc_tokens", "token_sets")}

    async def environment(
        self,
        run: int,
        token: int | None = None,
        values: dict[str, Any] | None = None,
        of_set: str | None = None,
        index: int | None = None,
    ) -> dict[str, Any]:
        """The attributes of a process, of a token over them, of a set or one of its members.

        `values` are set first; None removes one.
        """
        if values is None and of_set is None:
            return {"run": run, "environment": self._environment(run, token)}
        said = _of_token(None, token, set=texts(values or {}), of_set=of_set, index=index)
        return await self._tell(run, "environment", said)

    async def execute_queued(self, run: int) -> dict[str, Any]:
        """Go on with what asynchronous completions left waiting."""
        return await self._tell(run, "execute", {})

    async def execute_token(self, run: int, token: int) -> dict[str, Any]:
        """Execute the node of a token that a listener had held back."""
        return await self._tell(run, "execute-token", {"token": token})

    async def reevaluate(self, run: int, token: int) -> dict[str, Any]:
        """Ask the guard of a delayed token again, before its time."""
        return await self._tell(run, "reevaluate", {"token": token})

    async def retry_arc_token(self, run: int, token: int) -> dict[str, Any]:
        """Try the join that a token on an arc waits at again."""
        return await self._tell(run, "retry-arc-token", {"token": token})

    async def finalize(self, run: int) -> dict[str, Any]:
        """End a process whose end a listener had held up."""
        return await self._tell(run, "finalize", {})

    async def listen(self, run: int, listener: str, events: list[str] | None = None) -> dict[str, Any]:
        """From now on a listener hears of these events of a process, or of all."""
        self._known_listener(listener)
        return await self._tell(run, "listen", {"listener": listener, "events": events or []})

    async def unlisten(self, run: int, listener: str, events: list[str] | None = None) -> dict[str, Any]:
        """A listener hears of these events of a process no more, or of none."""
        return await self._tell(run, "unlisten", {"listener": listener, "events": events or []})

    # --- inside ---------------------------------------------------------------------------------------

    async def _tell(self, eid: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """What a process says to an operation, once it is recorded. Raises TokenError."""
        run = self._process(eid)
        if not run.active:
            raise NotExecutingError(
                "cancelled" if run.phase == "cancelled" else "not-executing",
                f"run {eid} of {run.name} is over already: it is {run.status}",
            )
        try:
            msgspec.msgpack.encode(arguments)  # what cannot be written down cannot be recorded
        except (UnicodeEncodeError, OverflowError) as refused:
            raise RequestError(f"{name}: {refused}") from None
        answers: list[Answer] = []
        await self.daemon.host.submit(lambda turn: answers.extend(say(turn, eid, name, (), arguments)))
        if not answers:
            error = f"run {eid} of {run.name} could not do it: it is {run.status}; narval why {eid} says more"
            raise refusal("failed", error)
        problem, value = answers[0].problem, answers[0].value
        if problem is not None:
            raise refusal(problem.kind, problem.message)
        return {"run": eid, **(value or {})}

    def _process(self, eid: int) -> Run:
        run = self.run_of(eid)
        if run.kind != "process":
            raise RequestError(f"run {eid} of {run.name} is a {run.kind}: only a process has tokens")
        return run

    def _parts(self, eid: int, at: int | None = None) -> dict[str, list[dict[str, Any]]]:
        run, daemon = self._process(eid), self.daemon
        if at is not None:
            before = past(daemon.agent, daemon.store, run, at)
            return run.engine.parts(before.definition, before.state)
        state = state_of(daemon.agent, daemon.store, run)
        return run.engine.parts(definition_of(daemon.agent, daemon.store, run), state)

    def _environment(self, eid: int, token: int | None) -> dict[str, str]:
        parts = self._parts(eid)
        shown = {each["id"]: each["value"] for each in parts["environment"]}
        if token is None:
            return shown
        for each in parts["tokens"]:
            if each["id"] == token:
                return {**shown, **each["environment"]}
        raise refusal("no-token", f"process {eid} has no node token {token}")

    def _known_listener(self, name: str) -> None:
        known = self.daemon.agent.library.of("listener")
        if name not in known:
            there = ", ".join(sorted(known)) or "none"
            raise RequestError(f"there is no listener {name!r} in modules/; there is {there}")


def _of_token(node: str | None, token: int | None, **others: Any) -> dict[str, Any]:
    """What is said of a token, without what nobody said."""
    said = {"node": node, "token": token, **others}
    return {key: value for key, value in said.items() if value is not None}


def texts(values: dict[str, Any]) -> dict[str, str | None]:
    """Attributes as they are kept. Raises RequestError."""
    try:
        return {name: kept(name, value) for name, value in values.items()}
    except (TypeError, ValueError) as error:
        raise RequestError(str(error)) from None


def new_set(said: dict[str, Any]) -> dict[str, Any]:
    """A new set of tokens, as it may be asked for. Raises RequestError."""
    unknown = said.keys() - {"name", "count", "environment", "members"}
    if unknown:
        raise RequestError(f"a set of tokens has name, count, environment and members, not {min(unknown)!r}")
    name, count, members = said.get("name"), said.get("count"), said.get("members") or {}
    if not isinstance(name, str) or not name:
        raise RequestError(f"expected the name of the set of tokens, got {name!r:.80}")
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_MEMBERS:
        raise RequestError(f"expected a count from 1 to {MOST_MEMBERS:,}, got {count!r:.80}")
    if not isinstance(members, dict) or not all(isinstance(each, list) for each in members.values()):
        raise RequestError("expected the members' attributes as lists: one value for each member")
    return {
        "name": name,
        "count": count,
        "environment": texts(said.get("environment") or {}),
        "members": {
            key: [texts({key: one})[key] for one in values[:count]] for key, values in members.items()
        },
    }


def refusal(kind: str, message: str) -> TokenError:
    """Why a process did not do what was asked, as the error that says whose matter it is."""
    return _REFUSALS.get(kind, TokenError)(kind, message)
