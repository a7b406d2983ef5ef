"""The rounds with a model: the next question to it, decided from its answers and their judgements.

An answer is parsed strictly, as files of definitions and elements, or as questions. A round is an answer and
its judgement. Without faults, and without a proof of something impossible, the proposal is ready; a question
goes to the person; else faults and findings go back, five rounds at most. The first warnings go back too; the
model may keep what it intends.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from narval.core.definitions.parsing import suffixes

MOST_QUESTIONS = 3
"""The most questions to the person of one answer."""

LONGEST_QUESTION = 500
"""The most characters of a question."""

FORM = f"""\
Answer in one of two forms, and with nothing else.
1. Files, each as
--- file: NAME.xml
its text
--- end
The file memory.xml holds elements to be declared: <memory> with elements in it. Every other file holds
definitions: NAME.xml, or NAME.task, NAME.plan, GROUP.NAME.xsl for what is no XML of narval. Give each file
whole. No Python, no other languages, no explanations.
2. If you cannot know what is meant: one to {MOST_QUESTIONS} questions to the person, a line each:
--- question: TEXT"""
"""The form of an answer, in words for the model."""

_LINE = re.compile(r"---\s*(file|question|end)\b\s*:?\s*(.*?)\s*")
_FENCE = re.compile(r"\s*```[\w.-]*\s*")
_FENCED = re.compile(r"```[\w.-]*[ \t]*\n(.*?)\n?```", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_PYTHON = re.compile(r"(?m)^\s*(?:import \w|from [\w.]+ import|def \w+\(|@action\b|async def )")


class Answer(NamedTuple):
    """The texts of an answer by file name, or its questions; else its faults."""

    texts: dict[str, str]
    questions: list[str]
    faults: list[str]


def read_answer(text: str) -> Answer:
    """Parse the answer of a model; a lone text of XML, fenced or not, is a file too."""
    text = text.replace("\r\n", "\n").strip("\ufeff\n ")
    if not text:
        return _wrong("the answer is empty")
    texts, questions, faults = _marked(text)
    if not texts and not questions and not faults:
        return _of_xml(text)
    if faults:
        return Answer({}, [], faults)
    if questions and not texts:
        return Answer({}, questions[:MOST_QUESTIONS], [])
    if questions:
        return _wrong("expected files or questions, found both; ask only what you cannot know")
    wrong = [fault for name in texts for fault in _faults(name, texts[name])]
    return Answer({} if wrong else texts, [], wrong)


def _marked(text: str) -> tuple[dict[str, str], list[str], list[str]]:
    """The files and questions marked in an answer, and the faults of the marks."""
    texts, questions, faults = dict[str, list[str]](), list[str](), list[str]()
    name = ""
    for line in text.split("\n"):
        mark = _LINE.fullmatch(line)
        if mark is None:
            if name:
                texts[name].append(line)
            continue
        word, value = mark[1], mark[2].strip("`\"' ")
        name = ""
        if word == "question" and value:
            questions.append(" ".join(value.split())[:LONGEST_QUESTION])
        elif word == "file":
            if value in texts:
                faults.append(f"the file {value:.80} is there twice")
            name = value
            texts[name] = []
            if not value:
                faults.append("expected the name of a file behind `--- file:`, found none")
    return {name: _unfenced(lines) for name, lines in texts.items()}, questions, faults


def _unfenced(lines: list[str]) -> str:
    """The lines of a file, without the fence that many models put around them."""
    while lines and not lines[0].strip():
        lines = lines[1:]
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    if len(lines) > 1 and _FENCE.fullmatch(lines[0]) and lines[-1].strip() == "```":
        lines = lines[1:-1]
    return "\n".join([*lines, ""])


def _of_xml(text: str) -> Answer:
    """The file in an answer without marks."""
    fenced = [part.strip() for part in _FENCED.findall(text)]
    parts = [part for part in fenced or [text] if part.startswith("<")]
    if _PYTHON.search(text) and not parts:
        return _wrong("expected definitions in XML, found Python")
    if not parts:
        return _wrong("expected files as `--- file: NAME.xml`, found none")
    texts = dict[str, str]()
    for number, part in enumerate(parts):
        is_memory = re.match(r"(?:<\?.*?\?>|<!--.*?-->|\s)*<memory\b", part, re.DOTALL) is not None
        name = "memory.xml" if is_memory else f"proposal{number or ''}.xml"
        texts[name] = f"{part}\n"
    return Answer(texts, [], [])


def _faults(name: str, text: str) -> list[str]:
    endings = tuple(suffixes())
    if name.endswith(".py") or (_PYTHON.search(text) and not text.lstrip().startswith("<")):
        return [f"{name:.80}: expected definitions, found Python; only what there is may be called"]
    if not (_NAME.fullmatch(name) and name.endswith(endings)):
        return [f"expected the name of a file that ends in {', '.join(sorted(endings))}, found {name!r:.80}"]
    return [] if text.strip() else [f"{name}: the file is empty"]


def _wrong(message: str) -> Answer:
    return Answer({}, [], [message])


# --- rounds ---------------------------------------------------------------------------------------------

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
