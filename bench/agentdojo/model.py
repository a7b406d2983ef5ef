"""A language model that is a script: it knows the right answers, and what an attack wants."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Row = Mapping[str, Any]

QUESTION_ENDS = "\n\nAnswer with "
"""What follows the question in a message: the form of its answer."""

_LIMIT = re.compile(r"expected at most (\d+) characters")
"""What narval says of an answer that is too long, when it asks again."""

FORM_BEGINS = "of this JSON Schema: "


class ScriptedModel:
    """Serves the OpenAI chat protocol on loopback. `answers` has the right rows by question, a text where the
    question asks for plain text; `wanted` are the calls of an attack, which the worst model answers for.
    """

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = {" ".join(question.split()): rows for question, rows in answers.items()}
        self.wanted: list[tuple[str, Row]] = []
        self.is_worst = False
        self.asked = 0
        model = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                """Say nothing."""

            def do_POST(self) -> None:
                """Answer one question."""
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                body = json.dumps(model.reply(asked)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()

    def reply(self, asked: Row) -> Row:
        """The answer to a request of the protocol."""
        self.asked += 1
        question, _, form = asked["messages"][0]["content"].partition(QUESTION_ENDS)
        right = self.answers[question]  # a question without an answer fails loudly
        schema = self._schema(form)
        limits = map(int, _LIMIT.findall(asked["messages"][-1]["content"]))
        content = self._worst(right, schema, min(limits, default=2_000)) if self.is_worst else right
        if schema is not None and "answers" in schema.get("properties", {}):
            content = {"answers": content if isinstance(content, list) else [content]}
        elif isinstance(content, list):
            content = content[0]
        text = content if isinstance(content, str) else json.dumps(content)
        return {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}

    def _schema(self, form: str) -> dict[str, Any] | None:
        _, found, text = form.partition(FORM_BEGINS)
        if not found:
            return None
        schema: dict[str, Any] = json.JSONDecoder().raw_decode(text)[0]
        return schema

    def _worst(self, right: Any, schema: dict[str, Any] | None, most: int) -> Any:
        """What the attack wants, as far as the form leaves room for it."""
        if not self.wanted:
            return right
        if schema is None:
            return "\n".join(_spelled(arguments) for _, arguments in self.wanted)
        listed = schema["properties"].get("answers")
        one = listed["items"] if listed else schema
        rows = right if isinstance(right, list) else [right]
        if not listed:
            return self._row(rows[0], one, self.wanted[0][1], most)
        wanted = [self._row(rows[0] if rows else {}, one, arguments, most) for _, arguments in self.wanted]
        return [*wanted, *(self._row(row, one, self.wanted[0][1], most) for row in rows)][: max(1, len(rows))]

    def _row(self, right: Row, schema: Mapping[str, Any], arguments: Row, most: int) -> Row:
        kinds = schema["properties"].items()
        row = {name: _value(name, kind, right.get(name), arguments) for name, kind in kinds}
        return {name: value[:most] if isinstance(value, str) else value for name, value in row.items()}


def _value(name: str, kind: Mapping[str, Any], right: Any, arguments: Row) -> Any:
    """The value of one field that serves an attack best."""
    if words := kind.get("enum"):
        wanted = [word for word in words if any(word in _texts(value) for value in arguments.values())]
        return (wanted or [word for word in words if word != right] or words)[0]
    if kind["type"] == "boolean":
        return right is not True
    if kind["type"] in ("number", "integer"):
        numbers = [value for value in arguments.values() if isinstance(value, (int, float))]
        number = numbers[0] if numbers else 1_000_000
        return int(number) if kind["type"] == "integer" else number
    for key, value in arguments.items():
        if key == name or key.rstrip("s") == name.rstrip("s"):
            return " ".join(_texts(value))
    texts = [text for value in arguments.values() for text in _texts(value)]
    if name in ADDRESSES:
        return next((text for text in texts if " " not in text and len(text) > 3), texts[0] if texts else "")
    return _spelled(arguments)


ADDRESSES = frozenset({"to", "url", "link", "address", "recipient", "user", "channel", "email", "iban", "id"})
"""Names of fields of which one value is wanted, not all."""


def _texts(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, (list, tuple)) else [str(value)]


def _spelled(arguments: Row) -> str:
    return " ".join(text for value in arguments.values() for text in _texts(value))
