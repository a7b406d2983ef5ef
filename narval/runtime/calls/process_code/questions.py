"""Questions that an engine asks the user's code while it decides (`View.ask`; sections 3 to 6 and 11).

A question is answered in a thread of its own while the loop waits, for `LONGEST` seconds at most: then the
thread is given up, the run that asked fails, and the loop goes on. What is asked gets copies, so nothing that
it does late can touch a run. Question and answer are recorded by the engine, so nobody is asked again.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from datetime import date, datetime
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Protocol

import msgspec

import narval
from narval.definitions.library import Definition
from narval.definitions.process.code import Code, made
from narval.definitions.process.statements import Accept, Discard, Skip
from narval.engines.engine import tokens_of
from narval.engines.events import Plain
from narval.errors import ActionError
from narval.runtime.agent.agent import AgentState
from narval.runtime.agent.run import Run
from narval.runtime.calls.conversion import failure
from narval.runtime.calls.process_code.tasks import SCRIPT, script_of
from narval.runtime.calls.process_code.token import Arrival, Delay, ProcessEvent, Token
from narval.runtime.scripts.interpreters import Script

LONGEST = 1.0
"""Seconds that a question may take: for so long nothing else goes on."""

SCRIPT_LONGEST = 3.0
"""The same for a script, whose program has to start first."""

MOST_GIVEN_UP = 8
"""Threads given up that still live, with which no more questions are asked."""

MOST_ANSWER = 100_000
"""The most characters of a text, and things in a list, that an answer may have."""

DELAYS = {
    "DELAY_NODE_EXECUTION": "NODE_TOKEN_ACCEPTED",
    "DELAY_PROCESS_FINALIZE_COMPLETE": "PROCESS_PENDING_COMPLETE",
    "DELAY_PROCESS_FINALIZE_CANCEL": "PROCESS_PENDING_CANCEL",
}
"""What listeners may answer, and the event that it answers."""


class Found(Protocol):
    """Where the functions of a version of a definition are: `Performer.function_of`."""

    def __call__(self, run: Run, definition: Definition, /) -> Any:
        """The function or class, or None."""


class QuestionAnswerer:
    """Answers the questions of one agent's engines; all of it is used on the loop's thread."""

    def __init__(self, found: Found, *, longest: float = LONGEST) -> None:
        self._found, self._longest = found, longest
        self._voice: QuestionThread | None = None
        self._given_up: list[QuestionThread] = []

    @property
    def given_up(self) -> int:
        """Questions given up whose code still runs."""
        self._given_up = [each for each in self._given_up if each.is_alive()]
        return len(self._given_up)

    def ask(
        self, agent: AgentState, run: Run, function: str, arguments: Mapping[str, Plain], at: float
    ) -> Plain:
        """The answer of a function, asked at a moment, as plain data. Raises ActionError."""
        word, _, name = function.partition(":")
        name, _, hook = name.rpartition(":") if word == "node" else (name, "", "")
        kind = _KINDS.get(word, word)
        if kind == "node-type" and name == SCRIPT:
            return _ask_script(run, arguments)
        definition = agent.lookup.definition(run, kind, name)
        manner = _MANNERS.get(kind)
        if manner is None or not isinstance(definition, Code):
            raise ActionError(
                f"there is no {kind} named {name!r} in modules/", "unknown-function", final=True
            )
        code = self._found(run, definition)
        if code is None:
            raise ActionError(f"the {kind} {name!r} is not loaded any more", "unknown-function", final=True)
        if self.given_up >= MOST_GIVEN_UP:
            raise ActionError(
                f"{self.given_up} questions did not come back and still run; {kind} {name!r} was not asked",
                "question-refused",
            )
        portray = partial(tokens_of(run.engine).token_view, run.definition, run.state)
        question = Question(definition, code, hook, arguments, portray, at)
        return self._answered(
            f"{kind} {name!r}{f' ({hook})' * bool(hook)}", partial(_answer, manner, question)
        )

    def close(self) -> None:
        """Ask no more."""
        if self._voice is not None:
            self._voice.ask(None)
            self._voice = None

    def _answered(self, what: str, work: Callable[[], Plain]) -> Plain:
        voice, self._voice = self._voice or QuestionThread(), None
        voice.ask(work)
        try:
            answer, error = voice.answers.get(timeout=self._longest)
        except Empty:
            self._given_up.append(voice)
            voice.give_up()
            why = f"{what} did not answer within {self._longest:g} s"
            raise ActionError(why, "question-timeout", final=True) from None
        self._voice = voice
        if error is not None:
            raise error
        return answer


class Question(NamedTuple):
    """What is asked, of whom; `portray` says what is known of a token, by its id."""

    definition: Code
    code: Any
    hook: str
    arguments: Mapping[str, Any]
    portray: Callable[[int | None], Mapping[str, Any]]
    at: float

    def token(self) -> Token:
        """The token that the question is about."""
        return Token(self.portray(self.arguments["token"]), at=self.at)


class QuestionThread:
    """One thread, which answers what it is asked until it is asked nothing."""

    __slots__ = ("_asked", "_thread", "answers")

    def __init__(self) -> None:
        self._asked: SimpleQueue[Callable[[], Plain] | None] = SimpleQueue()
        self.answers: SimpleQueue[tuple[Plain, ActionError | None]] = SimpleQueue()
        self._thread = threading.Thread(target=self._live, name="narval-question", daemon=True)
        self._thread.start()

    def ask(self, work: Callable[[], Plain] | None) -> None:
        """Have something answered; with None, end."""
        self._asked.put(work)

    def is_alive(self) -> bool:
        """Whether its thread has not ended."""
        return self._thread.is_alive()

    def give_up(self) -> None:
        """Nobody listens any more. Python code is ended; what waits within the system ends when that does."""
        self.ask(None)
        number = self._thread.ident
        if number is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(number), ctypes.py_object(_GivenUpError)
            )

    def _live(self) -> None:
        with contextlib.suppress(_GivenUpError):
            while (work := self._asked.get()) is not None:
                try:
                    answer, error = work(), None
                except ActionError as refusal:
                    answer, error = None, refusal
                self.answers.put((answer, error))
                del work


class _GivenUpError(BaseException):
    """The thread of a question that took too long is to end."""


def _answer(manner: Callable[[Question], Plain], question: Question) -> Plain:
    """Ask, on the question's thread; whatever goes wrong there is the author's to hear of."""
    try:
        said = manner(question)
        msgspec.msgpack.encode(said)  # what cannot be written down cannot be recorded
        return said
    except _GivenUpError:
        raise
    except ActionError:
        raise
    except BaseException as error:
        found = failure(error, question.definition.path)
        what = f"{question.definition.kind} {question.definition.name!r}"
        why = f"{what} of {question.definition.path}: {found.message}"
        raise ActionError(why, found.kind, final=True) from None


def _ask_script(run: Run, arguments: Mapping[str, Any]) -> Plain:
    """What the `allowBacktrack` of a script says, in a program of its own: it must be a boolean."""
    from narval.runtime.scripts.one_shot import Said

    script = Script(**script_of(run, "allowBacktrack", arguments["token"]), time=SCRIPT_LONGEST / 2)
    folder = str(Path(narval.__file__).parent.parent)
    line = [sys.executable, "-m", "narval.runtime.scripts.one_shot"]
    given = msgspec.msgpack.encode(script)
    try:
        done = subprocess.run(
            line, input=given, capture_output=True, timeout=SCRIPT_LONGEST, cwd=folder, check=True
        )
        said = msgspec.msgpack.decode(done.stdout, type=Said)
    except subprocess.TimeoutExpired:
        why = f"the script of node {script.node!r} did not answer within {SCRIPT_LONGEST:g} s"
        raise ActionError(why, "question-timeout", final=True) from None
    except (OSError, subprocess.CalledProcessError, msgspec.MsgspecError) as error:
        raise ActionError(f"the script of node {script.node!r} was not run: {error}", "crashed") from None
    if said.kind:
        raise ActionError(said.message, said.kind, final=True)
    if not isinstance(said.value, bool):
        raise _bad("allowBacktrack to give true or false", said.value)
    return said.value


# --- how each kind is asked -------------------------------------------------------------------------------


def _predicate(question: Question) -> Plain:
    said = question.code(question.token())
    if not isinstance(said, bool):
        raise _bad("True or False", said)
    return said


def _date(question: Question) -> Plain:
    said = question.code(question.token())
    if isinstance(said, date) and not isinstance(said, datetime):
        said = datetime(said.year, said.month, said.day)  # noqa: DTZ001 - a day begins where the home is
    if isinstance(said, datetime):
        return said.timestamp()
    if isinstance(said, int | float) and not isinstance(said, bool) and math.isfinite(said):
        return float(said)
    raise _bad("a datetime, or seconds since 1970", said)


def _string(question: Question) -> Plain:
    said = question.code(question.token())
    if not isinstance(said, str) or len(said) > MOST_ANSWER:
        raise _bad(f"a text of at most {MOST_ANSWER:,} characters", said)
    return said


def _node(question: Question) -> Plain:
    token = question.token()
    said = getattr(made(question.code, token.node.custom), question.hook)(token)
    if question.hook == "is_backtrackable":
        if not isinstance(said, bool):
            raise _bad("True or False", said)
        return said
    return _guard(said)


def _guard(said: object) -> Plain:
    """What a guard said, as the engine knows it; nothing is to accept, as it is in the source."""
    if said is None or said is True or _is(said, Accept):
        return {"action": "AcceptToken"}
    if _is(said, Discard):
        return {"action": "DiscardToken"}
    if said is Skip:
        return {"action": "SkipNode", "arcs": [""]}
    if isinstance(said, Skip):
        return {"action": "SkipNode", "arcs": [str(said.arc or "")]}
    if isinstance(said, Delay) and math.isfinite(said.until):
        return {"action": "DelayUntil", "until": said.until}
    raise _bad("Accept, Discard, Skip(arc) or Delay(until)", said)


def _is(said: object, wanted: type) -> bool:
    return said is wanted or isinstance(said, wanted)


def _join(question: Question) -> Plain:
    arrival = Arrival(question.arguments)
    code = question.code().join if isinstance(question.code, type) else question.code
    said = code(arrival)
    if said is None:
        return None
    if isinstance(said, list | tuple):
        said = arrival.join(said)
    there = {each.id for each in arrival.waiting}
    if not isinstance(said, dict) or not ({"join", "merge"} & said.keys()):
        raise _bad("arrival.join(…), arrival.merge(…) or None", said)
    ids = said.get("join", said.get("merge"))
    if not isinstance(ids, list) or not ids or not there.issuperset(ids) or len(set(ids)) != len(ids):
        raise _bad("tokens that wait at the node, each once", ids)
    return said


def _listener(question: Question) -> Plain:
    event = ProcessEvent(question.arguments, question.portray(question.arguments.get("token")))
    code = question.code().notify if isinstance(question.code, type) else question.code
    said = code(event)
    words = [] if said is None else [said] if isinstance(said, str) else said
    if not isinstance(words, list | tuple | set | frozenset) or not all(each in DELAYS for each in words):
        raise _bad(f"nothing, or {', '.join(DELAYS)}", said)
    return sorted(each for each in set(words) if DELAYS[each] == event.type)


_MANNERS: Mapping[str, Callable[[Question], Plain]] = {
    "predicate": _predicate,
    "date-function": _date,
    "string-function": _string,
    "node-type": _node,
    "join": _join,
    "listener": _listener,
}
_KINDS = {"node": "node-type", "date": "date-function", "string": "string-function"}


def _bad(wanted: str, said: object) -> ActionError:
    try:
        shown = repr(said)
    except Exception:
        shown = "what cannot be shown"
    return ActionError(f"expected {wanted}, got {type(said).__name__} {shown:.80}", "bad-answer", final=True)
