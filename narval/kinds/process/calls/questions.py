"""Questions that an engine asks the user's code while it decides (`View.ask`; sections 3 to 6 and 11).

A separate thread answers each question while the loop waits, for at most `LONGEST` seconds. Then the thread
is given up, the run that asked fails, and the loop continues. The code gets copies, so its late effects
cannot touch a run. The engine records question and answer, so none is asked again.
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
from typing import Any, NamedTuple

import msgspec

import narval
from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.calls.confining import confined_to
from narval.calls.context import CallContext
from narval.calls.conversion import failure
from narval.calls.of_kinds import FunctionOf
from narval.core.engines.engine import tokens_of
from narval.core.engines.events import Plain
from narval.core.errors import ActionError
from narval.kinds.process.calls.tasks import nearest, script_of, script_target
from narval.kinds.process.calls.token import Arrival, Delay, Nearest, ProcessEvent, Token
from narval.kinds.process.calls.transient import Transients
from narval.kinds.process.language.code import BUILT_IN_DATE, Code
from narval.kinds.process.language.definition import SCRIPT
from narval.kinds.process.language.properties import made
from narval.kinds.process.language.statements import Accept, Discard, Skip
from narval.system.scripts.interpreters import Script, ScriptAnswer

LONGEST = 1.0
"""Seconds that a question may take; nothing else runs meanwhile."""

SCRIPT_LONGEST = 3.0
"""The same for a script, whose program has to start first."""

MOST_GIVEN_UP = 8
"""The number of given-up threads, still running, at which no more questions are asked."""

MOST_ANSWER = 100_000
"""The most characters of a text, and items of a list, in an answer."""

DELAYS = {
    "DELAY_NODE_EXECUTION": "NODE_TOKEN_ACCEPTED",
    "DELAY_PROCESS_FINALIZE_COMPLETE": "PROCESS_PENDING_COMPLETE",
    "DELAY_PROCESS_FINALIZE_CANCEL": "PROCESS_PENDING_CANCEL",
}
"""The answers of listeners, and the event that each answers."""


class QuestionAnswerer:
    """The dispatch of questions from one agent's engines to the user's code; used only on the
    loop's thread.
    """

    def __init__(self, function_of: FunctionOf, *, longest: float = LONGEST) -> None:
        self._function_of, self._longest = function_of, longest
        self._thread: QuestionThread | None = None
        self._given_up: list[QuestionThread] = []

    @property
    def given_up(self) -> int:
        """The number of questions given up whose code still runs."""
        self._given_up = [thread for thread in self._given_up if thread.is_alive()]
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
        if definition is None and (kind, name) == BUILT_IN_DATE:
            return at
        ask = _ASKERS.get(kind)
        if ask is None or not isinstance(definition, Code):
            raise ActionError(
                f"there is no {kind} named {name!r} in modules/", "unknown-function", final=True
            )
        code = self._function_of(run, definition)
        if code is None:
            raise ActionError(f"the {kind} {name!r} is no longer loaded", "unknown-function", final=True)
        if self.given_up >= MOST_GIVEN_UP:
            raise ActionError(
                f"{self.given_up} questions did not come back and still run; {kind} {name!r} was not asked",
                "question-refused",
            )
        view_of = partial(tokens_of(run.engine).token_view, run.definition, run.state)
        about = arguments.get("token")
        token = about if isinstance(about, int) else None
        question = Question(
            definition,
            code,
            hook,
            arguments,
            view_of,
            transients=Transients(run, token),
            nearest=partial(nearest, run, token or 0),
            at=at,
        )
        return self._answered(f"{kind} {name!r}{f' ({hook})' * bool(hook)}", partial(_answer, ask, question))

    def close(self) -> None:
        """Stop all threads; no more questions may be asked."""
        if self._thread is not None:
            self._thread.ask(None)
            self._thread = None

    def _answered(self, what: str, work: Callable[[], Plain]) -> Plain:
        thread, self._thread = self._thread or QuestionThread(), None
        thread.ask(work)
        try:
            answer, error = thread.answers.get(timeout=self._longest)
        except Empty:
            self._given_up.append(thread)
            thread.give_up()
            why = f"{what} did not answer within {self._longest:g} s"
            raise ActionError(why, "question-timeout", final=True) from None
        self._thread = thread
        if error is not None:
            raise error
        return answer


class Question(NamedTuple):
    """A question to the user's code; `view_of` gives a token as plain data, by its id."""

    definition: Code
    code: Any
    hook: str
    arguments: Mapping[str, Any]
    view_of: Callable[[int | None], Mapping[str, Any]]
    transients: Transients
    nearest: Nearest
    at: float

    def token(self) -> Token:
        """The token that the question is about."""
        view, beside = self.view_of(self.arguments["token"]), self.transients
        return Token(view, at=self.at, transients=beside, nearest=self.nearest)


class QuestionThread(threading.Thread):
    """One thread, which answers questions until it is given None."""

    def __init__(self) -> None:
        super().__init__(name="narval-question", daemon=True)
        self._asked: SimpleQueue[Callable[[], Plain] | None] = SimpleQueue()
        self.answers: SimpleQueue[tuple[Plain, ActionError | None]] = SimpleQueue()
        self.start()

    def ask(self, work: Callable[[], Plain] | None) -> None:
        """Queue a question; None ends the thread."""
        self._asked.put(work)

    def give_up(self) -> None:
        """End the thread: immediately in Python code, in a system call when that returns."""
        self.ask(None)
        if self.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self.ident), ctypes.py_object(_GivenUpError)
            )

    def run(self) -> None:
        """Answer until it is given None, or given up."""
        with contextlib.suppress(_GivenUpError):
            while (work := self._asked.get()) is not None:
                try:
                    answer, error = work(), None
                except ActionError as refusal:
                    answer, error = None, refusal
                self.answers.put((answer, error))
                del work


class _GivenUpError(BaseException):
    """The thread of a question that took too long must end."""


def _answer(ask: Callable[[Question], Plain], question: Question) -> Plain:
    """Ask, on the question's thread. Raises ActionError with a message for the author of the code."""
    try:
        answer = ask(question)
        msgspec.msgpack.encode(answer)  # an answer that cannot be encoded cannot be recorded
        return answer
    except (_GivenUpError, ActionError):
        raise
    except BaseException as error:
        problem = failure(error, question.definition.path)
        what = f"{question.definition.kind} {question.definition.name!r}"
        why = f"{what} of {question.definition.path}: {problem.message}"
        raise ActionError(why, problem.kind, final=True) from None


def _ask_script(run: Run, arguments: Mapping[str, Any]) -> Plain:
    """The boolean that the `allowBacktrack` of a script gives; it runs in a separate program."""
    script = Script(**script_of(run, "allowBacktrack", arguments["token"]), time=SCRIPT_LONGEST / 2)
    folder = str(Path(narval.__file__).parent.parent)
    limits = confined_to(CallContext("", run.eid, script.node, target=script_target())).limits
    line = [sys.executable, "-m", "narval.system.scripts.interpreters", msgspec.json.encode(limits).decode()]
    data = msgspec.msgpack.encode(script)
    try:
        done = subprocess.run(
            line, input=data, capture_output=True, timeout=SCRIPT_LONGEST, cwd=folder, check=True
        )
        answer = msgspec.msgpack.decode(done.stdout, type=ScriptAnswer)
    except subprocess.TimeoutExpired:
        why = f"the script of node {script.node!r} did not answer within {SCRIPT_LONGEST:g} s"
        raise ActionError(why, "question-timeout", final=True) from None
    except (OSError, subprocess.CalledProcessError, msgspec.MsgspecError) as error:
        raise ActionError(f"the script of node {script.node!r} was not run: {error}", "crashed") from None
    if answer.kind:
        raise ActionError(answer.message, answer.kind, final=True)
    if not isinstance(answer.value, bool):
        raise _bad("allowBacktrack to give true or false", answer.value)
    return answer.value


# --- how each kind is asked -------------------------------------------------------------------------------


def _predicate(question: Question) -> Plain:
    return _truth(question.code(question.token()))


def _truth(answer: object) -> bool:
    if not isinstance(answer, bool):
        raise _bad("True or False", answer)
    return answer


def _date(question: Question) -> Plain:
    answer = question.code(question.token())
    if isinstance(answer, date) and not isinstance(answer, datetime):
        answer = datetime(answer.year, answer.month, answer.day)  # noqa: DTZ001 - a day begins where the home is
    if isinstance(answer, datetime):
        return answer.timestamp()
    if isinstance(answer, int | float) and not isinstance(answer, bool) and math.isfinite(answer):
        return float(answer)
    raise _bad("a datetime, or seconds since 1970", answer)


def _string(question: Question) -> Plain:
    answer = question.code(question.token())
    if not isinstance(answer, str) or len(answer) > MOST_ANSWER:
        raise _bad(f"a text of at most {MOST_ANSWER:,} characters", answer)
    return answer


def _node(question: Question) -> Plain:
    token = question.token()
    node = made(question.code, token.node.custom, question.arguments.get("evaluated"))
    answer = getattr(node, question.hook)(token)
    return _truth(answer) if question.hook == "is_backtrackable" else _guard(answer)


def _guard(answer: object) -> Plain:
    """The answer of a guard in the engine's form; None means accept, as in the source."""
    if answer is None or answer is True or _is(answer, Accept):
        return {"action": "AcceptToken"}
    if _is(answer, Discard):
        return {"action": "DiscardToken"}
    if answer is Skip:
        return {"action": "SkipNode", "arcs": [""]}
    if isinstance(answer, Skip):
        return {"action": "SkipNode", "arcs": [str(answer.arc or "")]}
    if isinstance(answer, Delay) and math.isfinite(answer.until):
        return {"action": "DelayUntil", "until": answer.until}
    raise _bad("Accept, Discard, Skip(arc) or Delay(until)", answer)


def _is(answer: object, expected: type) -> bool:
    return answer is expected or isinstance(answer, expected)


def _join(question: Question) -> Plain:
    arrival = Arrival(question.arguments)
    code = question.code().join if isinstance(question.code, type) else question.code
    answer = code(arrival)
    if answer is None:
        return None
    if isinstance(answer, list | tuple):
        answer = arrival.join(answer)
    there = {token.id for token in arrival.waiting}
    if not isinstance(answer, dict) or not ({"join", "merge"} & answer.keys()):
        raise _bad("arrival.join(…), arrival.merge(…) or None", answer)
    ids = answer.get("join", answer.get("merge"))
    if not isinstance(ids, list) or not ids or not there.issuperset(ids) or len(set(ids)) != len(ids):
        raise _bad("tokens that wait at the node, each once", ids)
    return answer


def _listener(question: Question) -> Plain:
    about = question.view_of(question.arguments.get("token"))
    event = ProcessEvent(question.arguments, about, question.transients, question.nearest)
    code = question.code().notify if isinstance(question.code, type) else question.code
    answer = code(event)
    words = [] if answer is None else [answer] if isinstance(answer, str) else answer
    if not isinstance(words, list | tuple | set | frozenset) or not all(word in DELAYS for word in words):
        raise _bad(f"nothing, or {', '.join(DELAYS)}", answer)
    return sorted(word for word in set(words) if DELAYS[word] == event.type)


_ASKERS: Mapping[str, Callable[[Question], Plain]] = {
    "predicate": _predicate,
    "date-function": _date,
    "string-function": _string,
    "node-type": _node,
    "join": _join,
    "listener": _listener,
}
_KINDS = {"node": "node-type", "date": "date-function", "string": "string-function"}


def _bad(expected: str, answer: object) -> ActionError:
    try:
        text = repr(answer)
    except Exception:
        text = "what cannot be shown"
    return ActionError(
        f"expected {expected}, got {type(answer).__name__} {text:.80}", "bad-answer", final=True
    )
