"""Drafting: a wish, a home and a model yield a proposal, round by round; each round is stored at once."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from narval.ask.definitions.checking import HomeAsRead
from narval.ask.definitions.judging import TextsBeside
from narval.calls.context import CallContext, enter
from narval.calls.models import Budget, Reply, ask_model, tokens_of
from narval.core.errors import ActionError, RequestError
from narval.files.home import Home
from narval.files.outside.services import LanguageModel
from narval.files.proposals.folder import ASKS, DRAFTING, FAILED, FAULTY, READY, Form, Proposal
from narval.files.proposals.wish import Wish, begin_proposal, model_of, wish_of
from narval.files.settings import Settings
from narval.trials.propose.language import language_page
from narval.trials.propose.prompt import asked_of
from narval.trials.propose.protocol import (
    MOST_ROUNDS,
    Round,
    messages_of,
    next_of,
    read_answer,
    sentences_of,
    warnings_of,
)

TOKENS = 8_000
"""The most tokens of one answer."""

_STATES = {"ready": READY, "asks": ASKS, "faulty": FAULTY}

Progress = Callable[[str], None]
"""A function that is called with the current activity, in words."""


def propose(home: Home, wish: Wish, progress: Progress = lambda words: None) -> Proposal:
    """Have a model draft a wish; returns the proposal, a new folder in `proposals/` of the home.

    Whatever the model does, the proposal has the outcome: `ready`, with `questions`, with remaining faults,
    or `failed` with the reason. Raises RequestError for an invalid wish, and if no model is set up;
    SettingsError.
    """
    model = model_of(Settings.load(home.path), wish.model)
    proposal = begin_proposal(home, wish, model)
    return _drafted(home, proposal, model, wish, progress)


def go_on(
    home: Home,
    proposal: Proposal,
    answers: Sequence[str] = (),
    counts: Mapping[str, int] = MappingProxyType({}),
    progress: Progress = lambda words: None,
) -> Proposal:
    """Continue a proposal whose questions are answered, that failed, or that has only begun.

    Raises RequestError for any other, or if the answered questions are not those asked; SettingsError.
    """
    about, wish = proposal.about(), wish_of(proposal, counts)
    questions = about.get("questions") or []
    if about.get("state") not in (ASKS, FAILED, DRAFTING):
        raise RequestError(f"proposal {proposal.name} asks nothing: it is {about.get('state')}")
    if len(answers) != len(questions):
        raise RequestError(f"expected {len(questions)} answers, one for each question, got {len(answers)}")
    model = model_of(Settings.load(home.path), wish.model)
    answered = [list(pair) for pair in zip(questions, answers, strict=True)] or about["answers"]
    about |= {"answers": answered, "questions": []}
    return _drafted(home, proposal, model, wish, progress, about)


def _drafted(
    home: Home,
    proposal: Proposal,
    model: LanguageModel,
    wish: Wish,
    progress: Progress,
    about: Form | None = None,
) -> Proposal:
    drafting = _Drafting(HomeAsRead.of(home), proposal, model, wish, progress, about)
    return asyncio.run(drafting.draft())


class _Drafting:
    """One drafting: the rounds so far, and the state of the proposal."""

    def __init__(
        self,
        read: HomeAsRead,
        proposal: Proposal,
        model: LanguageModel,
        wish: Wish,
        progress: Progress,
        about: Form | None = None,
    ) -> None:
        self._read, self._proposal, self._model, self._wish = read, proposal, model, wish
        self._progress = progress
        self._about = {**(about or proposal.about()), "state": DRAFTING, "pid": os.getpid()}
        self._rounds = [
            Round(one["answer"], one["faults"], one["questions"], one.get("warnings", ()))
            for one in proposal.rounds()
        ]

    @property
    def _answers(self) -> list[tuple[str, str]]:
        return [(question, answer) for question, answer in self._about["answers"]]

    async def draft(self) -> Proposal:
        """Ask until the proposal is ready, asks the person, or has used all rounds."""
        self._proposal.note(self._about)
        wish = self._wish
        asked = asked_of(self._read, wish.text, wish.counts, wish.change, wish.examples)
        enter(self._call())
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
        """The call that asks the model, like an action's."""
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
            if error.kind != "over-budget":  # over budget, nothing was sent
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
        """The judged answer; readable texts are put into the proposal, with or without faults."""
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
        judgement = TextsBeside(self._read, answer.texts, change).judge(self._said)
        self._proposal.put_texts(answer.texts)
        self._about.update(msgspec.to_builtins(judgement))
        self._proposal.note(self._about)
        wrong = sentences_of(judgement.faults, judgement.findings)
        return Round(text, wrong, warnings=warnings_of(judgement.faults))

    @property
    def _said(self) -> str:
        """All words of the person: the wish, and the answers to questions."""
        return "\n".join([self._wish.text, *(answer for _, answer in self._answers)])

    def _count(self, reply: Reply, sent: int) -> None:
        """Count the cost of an answer."""
        used = reply.used(sent)
        self._about["tokens"] += sum(used)
        self._about["money"] = round(self._about["money"] + Budget(self._model, None).cost(*used), 6)

    def _keep(self, number: int, one: Round) -> None:
        self._about["rounds"] = number
        form: dict[str, Any] = {
            "faults": list(one.faults), "questions": list(one.questions), "warnings": list(one.warnings),
        }  # fmt: skip
        self._proposal.note_round(number, one.answer, form)
        self._proposal.note(self._about)

    def _end(self, state: str, why: str | None) -> None:
        questions = list(self._rounds[-1].questions) if state == ASKS else []
        if state == FAULTY and not self._about["faults"]:
            why = f"after {len(self._rounds)} rounds: {'; '.join(self._rounds[-1].faults)}"[:2_000]
        self._about |= {"state": state, "pid": None, "why": why, "questions": questions}
        self._proposal.note(self._about)


def _storable(text: str) -> str:
    """A text without characters that no text file can hold."""
    return re.sub(r"[\ud800-\udfff\x00]", "\ufffd", text)
