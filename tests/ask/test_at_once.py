"""Operations that several people ask at the same time: none takes what another waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.ask.asker import Asker
from narval.ask.operations import invoke
from narval.core.errors import WorkRefusedError
from narval.surfaces.python.agent import Agent

PEOPLE = "[people.ann]\n[people.ben]\n"
RECIPES = """<cookbook group="w">
<work name="any"><title>Any</title></work>
<recipe name="waits" start_step="a" end_step="b">
  <step id="a" type="action" target="basic.nothing"/><step id="b" type="action" target="basic.nothing"/>
  <transition id="t"><in idref="a"/><out idref="b"/><condition><match>go</match></condition></transition>
</recipe>
</cookbook>"""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    for path, text in {"etc/people.toml": PEOPLE, "recipes/w.xml": RECIPES}.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True)
        file.write_text(text)
    with narval.open(tmp_path) as opened:
        yield opened


def asked(agent: Agent, by: str, operation: str, **arguments: Any) -> Any:
    return invoke(agent.daemon, Asker(by, 0, "python"), operation, arguments)


def test_all_who_wait_for_other_items_are_told_of_a_new_one(agent: Agent) -> None:
    async def story() -> None:
        waiting = [
            asyncio.create_task(asked(agent, by, "worklist", known=[], wait=60.0))
            for by in ("ann", "ben", "ann")
        ]
        await asyncio.sleep(0)
        item = (await asked(agent, "ann", "start", name="w.any"))["eid"]
        async with asyncio.timeout(60):
            rows = await asyncio.gather(*waiting)
        assert [[row["item"] for row in told] for told in rows] == [[item]] * 3

    agent.runner.run(story())


def test_the_second_of_two_answers_in_one_turn_is_told_who_gave_the_first(agent: Agent) -> None:
    item = agent.start("w.any")

    async def story() -> None:
        work = asyncio.create_task(agent.daemon.main_loop.run())
        answers = await asyncio.gather(
            *(asked(agent, by, "answer", item=item) for by in ("ann", "ben")), return_exceptions=True
        )
        agent.daemon.stop.request()
        await work
        assert answers[0]["by"] == "ann"
        assert isinstance(answers[1], WorkRefusedError)
        assert (answers[1].kind, "by ann" in str(answers[1])) == ("over", True)

    agent.runner.run(story())


def test_nothing_is_left_of_who_waited_for_a_run_and_went_away(agent: Agent) -> None:
    run = agent.start("w.waits")
    agent.until_idle()
    waiters = agent.daemon.host.waiters

    async def story() -> None:
        task = asyncio.create_task(agent.daemon.host.ended(agent.daemon.agent.runs[run]))
        await asyncio.sleep(0)
        assert run in waiters._over
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not waiters._over

    agent.runner.run(story())
