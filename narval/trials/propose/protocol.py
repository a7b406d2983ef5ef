"""The rounds with a model: the next question to it, decided from its answers and their judgements.

A round is an answer and its judgement. Without faults, and without a proof of something impossible, the
proposal is ready; a question goes to the person; else faults and findings go back, five rounds at most. The
first warnings go back too; the model may keep what it intends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from narval.trials.propose.answer import FORM

MOST_ROUNDS = 5
"""The most rounds of one proposal."""

TOLD_BACK = 30
"""The most faults and findings of one answer that are sent back to the model."""

LONGEST_ANSWER = 64_000
"""The most characters of the model's answer that are sent back to it."""

Next = Literal["ask", "ready", "asks", "faulty"]
"""The next step: the model is asked, or the proposal is ready, asks the person, or keeps its faults."""

Messages = list[dict[str, str]]


class Round(NamedTuple):
    """An answer of the model, and its judgement."""

    answer: str
    faults: Sequence[str] = ()
    """Its faults, a sentence each, and proofs of what is impossible."""
    questions: Sequence[str] = ()
    """The questions that it asks the person instead."""
    warnings: Sequence[str] = ()
    """Warnings about it, which are sent back to the model once."""


def next_of(rounds: Sequence[Round], answers: Sequence[tuple[str, str]] = ()) -> Next:
    """The next step after rounds; `answers` are the questions that the person has answered."""
    if not rounds:
        return "ask"
    last = rounds[-1]
    if last.questions and not answers:
        return "asks"
    may_ask = len(rounds) < MOST_ROUNDS
    if not last.faults and not last.questions:
        is_told = any(one.warnings for one in rounds[:-1])
        return "ask" if last.warnings and not is_told and may_ask else "ready"
    return "ask" if may_ask else "faulty"


def messages_of(
    page: str, asked: str, rounds: Sequence[Round], answers: Sequence[tuple[str, str]] = ()
) -> Messages:
    """The messages to a model: the page of the language, the question, and only the last of the rounds."""
    messages = [{"role": "system", "content": f"{page}\n\n{FORM}"}, {"role": "user", "content": asked}]
    if answers:
        said = "\n".join(f"Question: {question}\nAnswer: {answer}" for question, answer in answers)
        messages[1]["content"] += f"\n\nYou asked the person:\n{said}\nAsk nothing more."
    if rounds and not rounds[-1].questions:
        last = rounds[-1]
        wrong = "\n".join(f"- {fault}" for fault in [*last.faults, *last.warnings][:TOLD_BACK])
        head = (
            "This is wrong with it:" if last.faults else "This may be wrong with it; leave what you mean so:"
        )
        messages.append({"role": "assistant", "content": last.answer[:LONGEST_ANSWER] or "(nothing)"})
        messages.append({"role": "user", "content": f"{head}\n{wrong}\nGive all files again."})
    return messages


def sentences_of(faults: Sequence[dict[str, Any]], findings: Sequence[dict[str, Any]] = ()) -> list[str]:
    """Faults, and findings that prove something impossible, in the words for the model; without warnings."""
    return _told(faults, warnings=False) + [
        f"{one['path']}:{one['line']}: {one['message']}" for one in findings if one["severity"] == "error"
    ]


def warnings_of(faults: Sequence[dict[str, Any]]) -> list[str]:
    """Warnings in the words for the model."""
    return _told(faults, warnings=True)


def _told(faults: Sequence[dict[str, Any]], *, warnings: bool) -> list[str]:
    return [
        f"{fault['path']}:{fault['line']}:{fault['column']}: {fault['message']}".lstrip(":")
        for fault in faults
        if fault["warning"] == warnings
    ]
