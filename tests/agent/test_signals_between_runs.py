"""Runs tell one another something (K52): within the turn, durably, and not made again after a restart."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.ask.asker import PROGRAM
from narval.ask.operations import invoke
from narval.core.errors import NarvalError, RequestError
from narval.core.kinds import KINDS
from narval.daemon.daemon import Daemon
from tests.daemon.at_work import Killed, Scene, portrait, watched_commits
from tests.house.countdown import ROW

COUNTDOWNS = "one from 5 call nothing\ntwo from 9 call nothing\n"


@pytest.fixture(autouse=True)
def one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "countdown", ROW)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return written(Scene(tmp_path / "home")).home.path


def written(scene: Scene) -> Scene:
    scene.write("recipes/c.countdown", COUNTDOWNS)
    return scene


@pytest.fixture
def agent(home: Path) -> Iterator[Any]:
    with narval.open(home) as opened:
        yield opened


def begun(agent: Any) -> tuple[int, int]:
    return agent.start("c.one", "<one/>"), agent.start("c.two", "<two/>")


def heard(agent: Any, run: int) -> list[str]:
    """What came back to a run of what it told another."""
    return [line["answer"] for line in agent.history(run) if line["what"] == "Heard"]


def told(agent: Any, one: int, **given: Any) -> None:
    agent.signal(one, "tell", **{key: str(value) for key, value in given.items()})
    agent.until_idle()


def test_K52_the_answer_is_there_in_the_turn_of_the_call(agent: Any) -> None:
    one, two = begun(agent)
    agent.until_idle()
    turns = agent.daemon.host.loop.turns
    agent.signal(one, "tell", to=str(two), signal="skip")
    assert heard(agent, one) == ["[{'left': 7}, []]"]
    assert agent.daemon.host.loop.turns == turns + 1


def test_K52_what_belongs_to_it_joins_the_context_of_who_hears_it(agent: Any) -> None:
    one, two = begun(agent)
    [element] = agent.memory("one")
    told(agent, one, to=two, signal="hold")
    assert element.eid in set(agent.daemon.agent.memory.contexts.of(two))


def test_K52_a_signal_to_nobody_and_one_that_is_refused_come_back_as_failures(agent: Any) -> None:
    one, two = begun(agent)
    told(agent, one, to=one + 5000, signal="skip")
    told(agent, one, of="c.two", signal="skip")
    told(agent, one, to=two, signal="jump")
    told(agent, one, to=one, signal="skip")
    assert heard(agent, one) == ["unknown-target", "unknown-target", "not-listening", "[{'left': 3}, []]"]


def test_K52_who_ends_breaks_down_or_gives_up_leaves_nobody_waiting(agent: Any) -> None:
    one, two = begun(agent)
    told(agent, one, to=two, signal="hold")
    told(agent, one, to=two, signal="break")
    assert heard(agent, one) == ["over", "over"]
    three = agent.start("c.two")
    told(agent, one, to=three, signal="hold")
    agent.signal(one, "drop")
    agent.until_idle()
    assert heard(agent, one)[2:] == ["abandoned"]
    assert [line["what"] for line in agent.history(three) if line["what"] in ("Held", "Dropped")] == [
        "Held",
        "Dropped",
    ]
    told(agent, one, to=three, signal="hold")
    agent.cancel(one)
    agent.until_idle()
    assert [line["name"] for line in agent.history(three) if line["what"] == "Signalled"][-1] == "gone"


def test_K52_nobody_from_outside_can_speak_as_a_run(agent: Any) -> None:
    one, _ = begun(agent)
    with pytest.raises(RequestError, match="not hold"):
        agent.signal(one, "hold", **{"from": "7", "sender": "7"})


def test_K52_why_names_the_run_that_is_to_answer_and_history_has_both_sides(agent: Any) -> None:
    one, two = begun(agent)
    told(agent, one, to=two, signal="hold")
    [waiting] = [wait for wait in agent.why(one)["waiting"] if wait["id"] == "tell"]
    assert waiting["runs"] == [two]
    [call] = [line for line in agent.history(one) if line["what"] == "Call" and line["kind"] == "signal"]
    assert call["payload"]["signal"] == "hold"
    [signal] = [line for line in agent.history(two) if line["what"] == "Signalled"]
    assert (signal["sender"], signal["signal"]) == (one, call["call"])


def test_K52_what_is_not_answered_yet_waits_through_a_restart(home: Path) -> None:
    with narval.open(home) as agent:
        one, two = begun(agent)
        told(agent, one, to=two, signal="hold")
    with narval.open(home) as agent:
        agent.until_idle()
        assert [line["what"] for line in agent.history(two)].count("Held") == 1
        agent.signal(two, "free")
        agent.until_idle()
        [element] = agent.memory("two")
        assert heard(agent, one) == [f"[{{'left': 8}}, [{element.eid}]]"]


# --- killed at each commit ----------------------------------------------------------------------------------


async def ask(daemon: Daemon, operation: str, **arguments: Any) -> Any:
    return await invoke(daemon, PROGRAM, operation, arguments)


async def story(scene: Scene) -> None:
    """One tells two three things, is answered, gives up, and is over; what was done is not done again."""
    daemon = await scene.open()
    await daemon.main_loop.until_idle()
    while len(runs := await ask(daemon, "runs")) < 2:
        await ask(daemon, "start", name=f"c.{('one', 'two')[len(runs)]}", elements=[b"<given/>"])
    one, two = sorted(row["eid"] for row in runs)
    acts: list[tuple[int, str, dict[str, str]]] = [
        (one, "tell", {"to": str(two), "signal": "hold", "n": "1"}),
        (one, "tell", {"to": str(two), "signal": "skip"}),
        (two, "free", {}),
        (one, "tell", {"to": str(two), "signal": "hold", "n": "2"}),
        (one, "drop", {}),
        (one, "tell", {"to": str(two), "signal": "hold", "n": "3"}),
    ]
    done = [line for run in (one, two) for line in await ask(daemon, "history", run=run)]
    told = sum(line["what"] == "Signalled" and not line.get("sender") for line in done)
    for run, name, arguments in acts[told:]:
        await ask(daemon, "signal", run=run, name=name, arguments=arguments)
    if daemon.agent.runs[two].active:
        await ask(daemon, "cancel", run=two)
    await daemon.main_loop.until_idle()


async def lived(folder: Path, kill_at: tuple[int, bool] | None) -> tuple[list[str], int]:
    """What came back to one, and what two heard; the commits that it took."""
    scene = written(Scene(folder, limit=2))
    with watched_commits(scene):
        scene.kill_at = kill_at
        try:
            await story(scene)
        except (Killed, NarvalError):
            await scene.end()
            scene.kill_at = None
            await story(scene)
        assert scene.alive is not None
        one, two = sorted(scene.alive.agent.runs)
        story_of_one = await ask(scene.alive, "history", run=one)
        came = [line["answer"] for line in story_of_one if line["what"] == "Heard"]
        known = portrait(scene.alive.agent)
        said = [line for line in await ask(scene.alive, "history", run=two) if line["what"] == "Signalled"]
        came.append(json.dumps([line["name"] for line in said if line.get("sender")]))
        scene.kill(scene.alive)
        await scene.end()
        assert portrait((await scene.open(record_only=True)).agent) == known
        await scene.end()
    return came, scene.commits


def test_K52_nothing_is_told_twice_or_lost_by_a_kill_at_any_commit(tmp_path: Path) -> None:
    expected, commits = asyncio.run(lived(tmp_path / "whole", None))
    assert expected[-1] == json.dumps(["hold", "skip", "hold", "gone", "hold"])
    assert [said.partition("[9")[0] for said in expected[:-1]][-2:] == ["abandoned", "over"]
    assert commits > 8
    for commit in range(1, commits + 1):
        for is_written in (False, True):
            found, _ = asyncio.run(lived(tmp_path / f"{commit}{is_written}", (commit, is_written)))
            assert found == expected, (commit, is_written)
