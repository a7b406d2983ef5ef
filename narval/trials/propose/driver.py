"""Drafting: a wish, a home and a model give a proposal, round by round, each kept as soon as it is there."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from narval.ask.definitions.judging import HomeAsRead, Judgement
from narval.ask.json_forms import moment
from narval.calls.context import CallContext
from narval.calls.models.budget import Budget, tokens_of
from narval.calls.models.chat import Reply, ask_model
from narval.core.errors import ActionError, RequestError
from narval.files.home import Home
from narval.files.outside.services import Service, service_named
from narval.files.proposals.folder import (
    ASKS,
    DRAFTING,
    FAILED,
    FAULTY,
    READY,
    Form,
    Proposal,
    check_name,
    check_wish,
    name_for,
)
from narval.trials.propose.answer import read_answer
from narval.trials.propose.language import language_page
from narval.trials.propose.prompt import Change, Example, asked_of
from narval.trials.propose.protocol import MOST_ROUNDS, Round, messages_of, next_of, sentences_of

TOKENS = 8_000
"""The most tokens of one answer."""

_STATES = {"ready": READY, "asks": ASKS, "faulty": FAULTY}

Progress = Callable[[str], None]
"""Called with what is going on, in words."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """A wish of a person, and all that the model is shown with it."""

    text: str
    """The wish in words."""
    model: str = ""
    """The name of the model of `[models]`; "": that of `[propose]`."""
    name: str = ""
    """The name of the proposal; "": one of the words of the wish."""
    change: Change | None = None
    """The definition that is to be changed; None: new ones are wished for."""
    examples: tuple[Example, ...] = ()
    """The elements that the model is shown."""
    counts: Mapping[str, int] = {}
    """The number of elements of each name in memory."""
    by: str = ""
    """The person who wishes it."""


def propose(home: Home, wish: Wish, progress: Progress = lambda words: None) -> Proposal:
    """Have a model draft what somebody wishes: the proposal, a new folder in `proposals/` of the home.

    Whatever the model does, the proposal has what came of it: `ready`, with `questions`, with faults that are
    left, or `failed` with the reason. Raises RequestError for a wish that is none, and where no model is set
    up; SettingsError.
    """
    check_wish(wish.text)
    if not wish.text.strip():
        raise RequestError("expected a wish in words, got none")
    read = HomeAsRead(home)
    model = _model(read, wish.model)
    proposal = _begun(home, wish, model)
    return asyncio.run(_Drafting(read, proposal, model, wish, progress).draft())


def answer_questions(
    home: Home,
    proposal: Proposal,
    answers: Sequence[str],
    wish: Wish,
    progress: Progress = lambda words: None,
) -> Proposal:
    """Go on with a proposal that asks something: `wish` is what it was made of, with the counts of now.

    Raises RequestError where it asks nothing, or something else than is answered.
    """
    about = proposal.about()
    questions = about.get("questions") or []
    if about.get("state") != ASKS:
        raise RequestError(f"proposal {proposal.name} asks nothing: it is {about.get('state')}")
    if len(answers) != len(questions):
        raise RequestError(f"expected {len(questions)} answers, one for each question, got {len(answers)}")
    read = HomeAsRead(home)
    model = _model(read, wish.model)
    answered = [list(pair) for pair in zip(questions, answers, strict=True)]
    drafting = _Drafting(
        read, proposal, model, wish, progress, {**about, "answers": answered, "questions": []}
    )
    return asyncio.run(drafting.draft())


def wish_of(proposal: Proposal, counts: Mapping[str, int]) -> Wish:
    """The wish that a proposal was made of, as it is kept."""
    about = proposal.about()
    change = about.get("change")
    examples = tuple(
        Example(one["eid"], one["xml"], tuple(one["labels"])) for one in about.get("examples", ())
    )
    return Wish(
        text=proposal.wish(),
        model=str(about.get("model") or ""),
        name=proposal.name,
        change=Change(**change) if change else None,
        examples=examples,
        counts=counts,
        by=str(about.get("by") or ""),
    )


def _model(read: HomeAsRead, name: str) -> Service:
    """The model that is asked. Raises RequestError with how to set one up, and what to do without one."""
    name = name or read.settings.propose.model or ""
    if not name:
        raise RequestError(
            "no model is set up to draft definitions. Write into etc/narval.toml, for example:\n"
            '  [models.local]\n  url = "http://127.0.0.1:11434/v1"\n  model = "NAME"\n  tokens = 200000\n'
            '  [propose]\n  model = "local"\n'
            "By hand: `narval actions` lists what can be called, `narval take` copies an example that ships, "
            "and `narval check FILE --tell` says what a definition does"
        )
    try:
        return service_named(read.settings.services, "models", name)
    except ActionError as error:
        raise RequestError(str(error)) from None


def _begun(home: Home, wish: Wish, model: Service) -> Proposal:
    """The folder of a new proposal. Raises RequestError where there is one of its name."""
    if wish.name:
        check_name(wish.name)
    base = wish.name or name_for(wish.text)
    names = [base] if wish.name else [base, *(f"{base}-{number}" for number in range(2, 1000))]
    labels = sorted({label for one in wish.examples for label in one.labels})
    about: Form = {
        "by": wish.by,
        "at": moment(time.time()),
        "state": DRAFTING,
        "pid": os.getpid(),
        "why": None,
        "model": model.name,
        "rounds": 0,
        "tokens": 0,
        "money": 0.0,
        "change": msgspec.to_builtins(wish.change),
        "examples": [msgspec.to_builtins(one) for one in wish.examples],
        "labels": labels,
        "questions": [],
        "answers": [],
        **msgspec.to_builtins(Judgement([])),
    }
    try:
        for name in names:
            if (proposal := Proposal(home.path, name)).begin(about, wish.text):
                return proposal
    except OSError as error:
        raise RequestError(f"proposals/ cannot be written: {error.strerror}") from None
    raise RequestError(f"there is a proposal {base} already; choose another name, or drop it")


class _Drafting:
    """One drafting: the rounds so far, and what is known of the proposal."""

    def __init__(
        self,
        read: HomeAsRead,
        proposal: Proposal,
        model: Service,
        wish: Wish,
        progress: Progress,
        about: Form | None = None,
    ) -> None:
        self._read, self._proposal, self._model, self._wish = read, proposal, model, wish
        self._progress = progress
        self._about = {**(about or proposal.about()), "state": DRAFTING, "pid": os.getpid()}
        self._rounds = [Round(one["answer"], one["faults"], one["questions"]) for one in proposal.rounds()]

    @property
    def _answers(self) -> list[tuple[str, str]]:
        return [(question, answer) for question, answer in self._about["answers"]]

    async def draft(self) -> Proposal:
        """Ask until it is ready, asks the person, or may ask no more."""
        self._proposal.note(self._about)
        wish = self._wish
        asked = asked_of(self._read, wish.text, wish.counts, wish.change, wish.examples)
        self._call().enter()
        try:
            while (following := next_of(self._rounds, self._answers)) == "ask":
                await self._round(messages_of(language_page(), asked, self._rounds, self._answers))
            self._end(_STATES[following], None)
        except ActionError as error:
            self._end(FAILED, str(error))
        except BaseException:
            self._end(FAILED, "it was ended before it was done")
            raise
        return self._proposal

    def _call(self) -> CallContext:
        """The call in which the model is asked, as an action would ask it."""
        call = CallContext(f"propose {self._proposal.name}", 0, "propose", home=self._read.path)
        call.allow(self._read.settings.fetch_allow, self._read.settings.services)
        return call

    async def _round(self, messages: list[dict[str, str]]) -> None:
        number = len(self._rounds) + 1
        self._progress(f"round {number} of {MOST_ROUNDS} at most: {self._model} is asked")
        reply, sent = Reply(), sum(tokens_of(message["content"]) for message in messages)
        try:
            await ask_model(self._model, messages, TOKENS, reply=reply)
        except ActionError as error:
            if error.kind != "over-budget":  # then nothing was sent
                self._count(reply, sent)
                self._keep(number, Round(_storable(reply.text), [str(error)]))
            raise
        self._count(reply, sent)
        text = _storable(reply.text)
        self._keep(number, Round(text, ["it was not judged"]))
        self._progress(f"round {number} of {MOST_ROUNDS} at most: the answer is checked")
        self._rounds.append(await asyncio.to_thread(self._judged, text, is_cut=reply.is_cut))
        self._keep(number, self._rounds[-1])

    def _judged(self, text: str, *, is_cut: bool) -> Round:
        """An answer as it is judged; texts that can be read are put into the proposal, faults or not."""
        if is_cut:
            return Round(text, [f"it was cut short after {TOKENS:,} tokens: make it shorter"])
        answer = read_answer(text)
        if answer.faults:
            return Round(text, answer.faults)
        if answer.questions:
            if self._answers:
                return Round(text, ["ask nothing more: answer with files"])
            return Round(text, (), answer.questions)
        change = msgspec.to_builtins(self._wish.change) if self._wish.change is not None else None
        judgement = self._read.judge(answer.texts, self._said, change)
        self._proposal.put_texts(answer.texts)
        self._about.update(msgspec.to_builtins(judgement))
        self._proposal.note(self._about)
        return Round(text, sentences_of(judgement.faults, judgement.findings))

    @property
    def _said(self) -> str:
        """All that the person has said: the wish, and the answers to questions."""
        return "\n".join([self._wish.text, *(answer for _, answer in self._answers)])

    def _count(self, reply: Reply, sent: int) -> None:
        """Count what an answer has cost."""
        used = reply.used(sent)
        self._about["tokens"] += sum(used)
        self._about["money"] = round(self._about["money"] + Budget(self._model, None).cost(*used), 6)

    def _keep(self, number: int, one: Round) -> None:
        self._about["rounds"] = number
        form: dict[str, Any] = {"faults": list(one.faults), "questions": list(one.questions)}
        self._proposal.note_round(number, one.answer, form)
        self._proposal.note(self._about)

    def _end(self, state: str, why: str | None) -> None:
        questions = list(self._rounds[-1].questions) if state == ASKS else []
        if state == FAULTY and not self._about["faults"]:
            why = f"after {len(self._rounds)} rounds: {'; '.join(self._rounds[-1].faults)}"[:2_000]
        self._about |= {"state": state, "pid": None, "why": why, "questions": questions}
        self._proposal.note(self._about)


def _storable(text: str) -> str:
    """A text without what no file of text can hold."""
    return re.sub(r"[\ud800-\udfff\x00]", "\ufffd", text)
