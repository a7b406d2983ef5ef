"""Answers: a language model's answer becomes elements, if it is valid; nothing else of it is used."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from lxml import etree

from narval.api import Reply, has_meaning, refusals, xml_safe

from .prompts import Asked, wrong

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
TYPES: dict[str, Any] = {"text": str, "number": (int, float), "integer": int, "yes-no": bool}
JSON_TYPES = {"text": "string", "number": "number", "integer": "integer", "yes-no": "boolean"}
YES_NO = {"yes": True, "true": True, "no": False, "false": False}
"""The texts that count as truth values, as small models write them."""
LONGEST = 2_000
"""The most characters of a value, unless its field says otherwise."""


class Field(NamedTuple):
    """A requested value: a text of limited length, one of some words, or a number."""

    name: str
    type: str = "text"
    words: tuple[str, ...] = ()
    most: int = LONGEST
    optional: bool = False
    about: str = ""

    @classmethod
    def of(cls, attributes: dict[str, str]) -> Field:
        """Parse `<field name="…"/>`. Raises ActionError (`bad-prompt`)."""
        name, kind = attributes.get("name", ""), attributes.get("type", "text")
        unknown = attributes.keys() - {"name", "type", "words", "most", "optional", "about"}
        if not NAME.fullmatch(name) or name in ("eid", "xmlns"):
            raise wrong(f"expected the name of a field to be that of an attribute, found {name!r:.80}")
        if unknown or kind not in TYPES or attributes.get("optional", "no") not in ("yes", "no"):
            expectation = f"a type out of {', '.join(TYPES)}, words, most, optional and about"
            raise wrong(f"field {name}: expected {expectation}, found {attributes!r:.200}")
        most = attributes.get("most", str(LONGEST))
        if not (most.isascii() and most.isdigit() and 1 <= int(most[:9]) <= 60_000):
            raise wrong(f"field {name}: expected most to be a number from 1 to 60,000, found {most!r:.80}")
        words = tuple(attributes.get("words", "").split())
        return cls(
            name, kind, words, int(most), attributes.get("optional") == "yes", attributes.get("about", "")
        )

    def read(self, row: dict[str, Any]) -> Any:
        """The value in an object of the answer; None if it is missing."""
        value = row.get(self.name)
        if self.type == "yes-no" and isinstance(value, str):
            return YES_NO.get(value.strip().lower(), value)
        return value

    def fault(self, value: Any) -> str:
        """The reason why a value is invalid; "" if it is valid."""
        if not isinstance(value, TYPES[self.type]) or isinstance(value, bool) != (self.type == "yes-no"):
            return f"{self.name}: expected {JSON_TYPES[self.type]}"
        if self.words and str(value) not in self.words:
            return f"{self.name}: expected one of {', '.join(self.words)}"
        if self.type == "text" and len(value) > self.most:
            return f"{self.name}: expected at most {self.most} characters"
        return ""

    def text(self, value: Any) -> str:
        """A valid value, in the form for an attribute."""
        if self.type == "yes-no":
            return "yes" if value else "no"
        return " ".join(xml_safe(str(value)).split())

    @property
    def schema(self) -> dict[str, Any]:
        """The field in JSON Schema."""
        said: dict[str, Any] = {"type": JSON_TYPES[self.type]}
        if self.words:
            said["enum"] = list(self.words)
        if self.about:
            said["description"] = self.about
        return said


class Expected(NamedTuple):
    """The form of an answer: elements of one name, with some attributes; without any, a text.

    `most` is the greatest number of elements, `tokens` the greatest length of the answer.
    """

    name: str
    fields: tuple[Field, ...]
    given: dict[str, str]
    most: int
    tokens: int

    @classmethod
    def of(cls, asked: Asked) -> Expected:
        """The form requested by a prompt. Raises ActionError (`bad-prompt`)."""
        name = asked.answer
        if not NAME.fullmatch(name) or has_meaning(name):
            why = f"expected the name of an element that means nothing to narval, found {name!r:.80}"
            raise wrong(f"answer: {why}")
        fields = tuple(map(Field.of, asked.fields))
        names = [*(field.name for field in fields), *asked.given]
        if len(set(names)) < len(names) or not all(map(NAME.fullmatch, names)) or "eid" in names:
            raise wrong(f"expected each attribute of the answer once, found {', '.join(names)!r:.200}")
        if asked.most > 1 and not fields:
            raise wrong("expected fields where there may be several answers, found none")
        return cls(asked.answer, fields, asked.given, asked.most, asked.tokens)

    @property
    def described(self) -> str:
        """The form in words, for the model."""
        if not self.fields:
            return "Answer with plain text alone."
        what = f'{{"answers": [at most {self.most} such objects]}}' if self.most > 1 else "one JSON object"
        return f"Answer with {what} and nothing else, of this JSON Schema: {json.dumps(self.schema)}"

    @property
    def schema(self) -> dict[str, Any]:
        """The form of an answer in JSON Schema."""
        one = {
            "type": "object",
            "properties": {field.name: field.schema for field in self.fields},
            "required": [field.name for field in self.fields if not field.optional],
            "additionalProperties": False,
        }
        if self.most == 1:
            return one
        listed = {"type": "array", "items": one}
        return {"type": "object", "properties": {"answers": listed}, "required": ["answers"]} | {
            "additionalProperties": False
        }

    def read(self, reply: Reply) -> tuple[list[etree._Element], list[str]]:
        """The elements in an answer, and all its faults."""
        if reply.is_cut:
            return [], [f"it was cut short after {self.tokens} tokens"]
        if not self.fields:
            return self._checked([self._of_text(reply.text)])
        try:
            answer = json.loads(_unfenced(reply.text), parse_constant=_refuse)
        except (ValueError, RecursionError):
            return [], ["it is no JSON"]
        rows = answer.get("answers") if self.most > 1 and isinstance(answer, dict) else [answer]
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            return [], ["it is not the object that the JSON Schema describes"]
        if not 1 <= len(rows) <= self.most:
            return [], [f"it has {len(rows)} answers, not one to {self.most}"]
        faults = [fault for row in rows for fault in self._faults(row)]
        return ([], faults[:10]) if faults else self._checked([self._element(row) for row in rows])

    def _faults(self, row: dict[str, Any]) -> Iterable[str]:
        for field in self.fields:
            value = field.read(row)
            if value is None:
                if not field.optional:
                    yield f"{field.name} is not there"
            elif fault := field.fault(value):
                yield fault

    def _element(self, row: dict[str, Any]) -> etree._Element:
        made = etree.Element(self.name)
        for field in self.fields:
            value = field.read(row)
            if value is not None:
                made.set(field.name, field.text(value))
        return self._completed(made)

    def _of_text(self, text: str) -> etree._Element:
        made = etree.Element(self.name)
        made.text = xml_safe(text.strip())
        return self._completed(made)

    def _completed(self, made: etree._Element) -> etree._Element:
        for name, value in self.given.items():
            made.set(name, value)
        return made

    def _checked(self, made: list[etree._Element]) -> tuple[list[etree._Element], list[str]]:
        """The elements, unless they are empty, or memory would refuse one."""
        faults = ["it is empty" for element in made if not self.fields and not element.text]
        faults += refusals(made)
        return ([], faults[:10]) if faults else (made, [])


def _unfenced(text: str) -> str:
    """A text without the fence that many models put around JSON."""
    match = re.fullmatch(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", text, re.DOTALL)
    return match[1] if match else text


def _refuse(word: str) -> None:
    raise ValueError(word)
