"""How-to pages on what is outside are followed: files written, commands given, answers compared."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from email.header import decode_header, make_header
from pathlib import Path

import pytest

import narval
from tests.docs.test_cli_page import Reader, examples, follow
from tests.docs.typed import with_grants
from tests.local_site import local_site
from tests.modules.chat_server import chat_server, streamed
from tests.places import DOCS
from tests.ports import free_port


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reading = Reader(tmp_path)
    (tmp_path / ".narval").mkdir()
    yield reading
    reading.end()


def write_files(reader: Reader, page: Path) -> None:
    """Write the files that a page shows."""
    for language in ("toml", "xml", "json"):
        for title, text in examples(language, page):
            if title:
                file = reader.folder / title.replace("~/", "")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(with_grants(file, text))


def do(reader: Reader, name: str, stands_for: Mapping[str, str]) -> None:
    """Follow a page, with other words where what it names is not the reader's."""
    text = (DOCS / "how-to" / name).read_text("utf-8")
    assert len(text.splitlines()) <= 60
    for word, other in stands_for.items():
        text = text.replace(word, other)
    page = reader.folder / name
    page.write_text(text)
    write_files(reader, page)
    follow(reader, page)


DRAFT = """\
--- file: ann.xml
<recipe group="ann" name="subjects" start_step="listen" end_step="note" restart="parallel">
  <step id="listen" type="action" target="basic.nothing"/>
  <step id="note" type="action" target="files.append">
    <arguments><text path="data/ann.txt">{$mail/@subject}</text></arguments>
  </step>
  <transition id="came">
    <in idref="listen"/><out idref="note"/>
    <condition as="mail" use="yes"><match>email[@from='ann@example.org']</match></condition>
  </transition>
</recipe>
--- file: memory.xml
<memory><start-plan recipe="ann.subjects"/></memory>
--- end
"""
"""The answer of a model to the wish of the page."""


def test_say_what_you_want(reader: Reader) -> None:
    with chat_server() as server:
        server.will_say(streamed(DRAFT))
        do(reader, "say-what-you-want.md", {"http://127.0.0.1:11434/v1": server.url})


def test_run_a_program(reader: Reader) -> None:
    do(reader, "run-a-program.md", {})


def test_call_a_web_api(reader: Reader) -> None:
    do(reader, "call-a-web-api.md", {"8765": str(free_port())})


def test_use_a_tool_of_an_mcp_server(reader: Reader) -> None:
    words = json.dumps([str(Path(__file__).with_name("time_server.py"))])
    stand_in = f'"command": "{sys.executable}", "args": {words}'
    do(
        reader,
        "use-a-tool-of-an-mcp-server.md",
        {'"command": "uvx", "args": ["mcp-server-time"]': stand_in},
    )


def test_ask_a_language_model(reader: Reader) -> None:
    with chat_server() as server:
        server.will_say(streamed('{"urgent": true, "why": "water in the cellar"}'))
        do(reader, "ask-a-language-model.md", {"http://127.0.0.1:11434/v1": server.url})
        assert "not urgent" in server.asked[0]["messages"][1]["content"]
        server.will_say(streamed('{"urgent": false, "why": "tea"}'))
        reader.does("echo '<note>Tea is out.</note>' | narval add -")
        reader.does("narval run --until-idle")
        runs = json.loads(reader.does("narval runs --json"))
    states = [run["state"] for run in runs if run["name"] == "notes.sort"]
    assert sorted(states).count("done") == 1, "a note that is not urgent ends its plan"


@pytest.mark.parametrize("module", ["http", "json", "command", "notify"])
def test_the_recipes_of_the_page_of_a_module_are_whole(module: str) -> None:
    recipes = [
        text
        for _, text in examples("xml", DOCS / "reference" / "modules" / f"{module}.md")
        if text.startswith("<recipe")
    ]
    with narval.open() as agent:
        for text in recipes:
            agent.load(text)
    assert recipes or module == "notify"


def test_see_traces_in_jaeger(reader: Reader) -> None:
    with local_site() as site:
        site.put("/v1/traces", "")
        do(reader, "see-traces-in-jaeger.md", {"http://localhost:4318": site.url})
        reader.does("narval stop")
        spans = b"".join(asked.body for asked in site.asked)
    for name in (b"trial.fails", b"action basic.nothing", b"action basic.error", b"_OTHER"):
        assert name in spans
    assert b"the lamp is out" not in spans
    assert b"dark" not in spans


def test_be_told_on_your_telephone(reader: Reader) -> None:
    with local_site() as site:
        site.put("/narval-8f3kq7w2", "{}")
        do(reader, "be-told-on-your-telephone.md", {"https://ntfy.sh/narval": f"{site.url}/narval"})
        (asked,) = site.asked
    assert "the lamp is out" in asked.body.decode()
    title = str(make_header(decode_header(asked.headers["title"])))
    assert title == "narval: trial.fails failed"
