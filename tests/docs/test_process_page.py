"""What the page on processes shows is so: its examples load, its Rubric and JoinLang are read."""

from __future__ import annotations

import re
from pathlib import Path

import narval
from narval.files.reading import load
from narval.kinds.process.language.definition import CALLS, Process
from narval.kinds.process.language.joinlang import parse as parse_joinlang
from narval.kinds.process.language.rubric import parse as parse_rubric
from narval.kinds.process.language.vocabulary import ALIASES, JOINS
from tests.places import ROOT

PAGE = (ROOT / "docs" / "reference" / "process.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_definitions_of_the_page_make_a_home(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    texts = [text for text in blocks("xml") if text.startswith("<process-definition")]
    for number, text in enumerate(texts):
        (tmp_path / "recipes" / f"page{number}.wf.xml").write_text(text, encoding="utf-8")
    loaded = load(tmp_path)
    assert [str(fault) for fault in loaded.faults] == []
    processes = {found.name: found for found in loaded.library if isinstance(found, Process)}
    assert {"order", "answer", "hire", "sale", "shipping"} <= set(processes)
    assert [node for node in processes["sale"].nodes if node.startswith("home")] == ["home:pick", "home:send"]


def test_the_guard_and_the_join_of_the_page_are_read() -> None:
    (guard,), (join,) = blocks("rubric"), blocks("joinlang")
    assert parse_rubric(guard).faults == ()
    assert parse_joinlang(join).faults == ()
    assert len(parse_joinlang(join).join) == 2


def test_each_join_and_each_type_of_node_is_on_the_page() -> None:
    names = {*JOINS, *ALIASES, *CALLS, "wait", "script", "nested"}
    assert [name for name in sorted(names) if f"`{name}`" not in PAGE] == []


def test_the_process_that_waits_for_an_element_asks_its_guard_again_after_an_hour() -> None:
    (text,) = (one for one in blocks("xml") if '<process-definition name="answer">' in one)
    with narval.open(clock=narval.SimulatedClock()) as agent:
        agent.load(text)
        run = agent.start("text.answer")
        agent.until_idle()

        def waits_for() -> str:
            (waiting,) = agent.ask("why", run=run)["waiting"]
            return str(waiting["for"])

        agent.add("<signature for='answer'/>")
        agent.elapse(minutes=59)
        assert waits_for() == "time"
        agent.elapse(minutes=2)
        assert waits_for() == "person", "the guard let it in; people complete the node"
