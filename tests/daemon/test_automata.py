"""Automata on a clock that stands still, with real programs, and daemons that are killed (A17, A18, A21)."""

from __future__ import annotations

from pathlib import Path

import pytest

from narval.agent.agent import AgentState
from narval.surfaces.cli.render import reasons
from tests.daemon.at_work import Scene, in_a_loop
from tests.daemon.home_in_time import HomeInTime


def automaton(inside: str, attributes: str = "") -> str:
    return f'<automaton group="g" name="a" {attributes}>{inside}</automaton>'


def scene_of(folder: Path, text: str) -> Scene:
    """A home with one automaton, whose daemon may be killed."""
    scene = Scene(folder / "home", settings='timezone = "UTC"\n')
    scene.write("recipes/a.xml", text)
    return scene


async def killed(scene: Scene) -> None:
    """The daemon is killed between two of its commits."""
    assert scene.alive is not None
    scene.kill(scene.alive)
    await scene.end()


def states(agent: AgentState) -> list[str]:
    return [run.status for run in agent.runs.values()]


def test_A17_the_moment_is_told_and_counts_though_no_daemon_was_there(tmp_path: Path) -> None:
    waits = '<state name="start" command="true"><wait signal="go"/></state>'
    files = {"recipes/a.xml": automaton(waits, 'timeout="60"')}
    at = HomeInTime(tmp_path, "2026-03-02T10:00:00Z", files)
    with at.open() as agent:
        run = agent.start("g.a")
        agent.until_idle()
        told = list(reasons.why(agent.why(run)))
        assert any("g.a is given up at 2026-03-02 10:01:00" in line for line in told), told
    at.clock.advance(60)
    with at.open() as agent:
        agent.until_idle()
        assert agent.run(run)["error"]["type"] == "timeout"
        assert "not over within 60 s: it was at start" in "\n".join(reasons.why(agent.why(run)))


def test_M52_what_began_again_and_ended_well_needs_no_attention_any_more(tmp_path: Path) -> None:
    state = '<state name="start" command="test -e mended"/>'
    long = '<state name="start" command="sh">seq -s - 99 >&amp;2; exit 1</state>'
    other = automaton(long).replace('name="a"', 'name="once"')
    files = {"recipes/a.xml": automaton(state, 'restart="yes"'), "recipes/once.xml": other}
    at = HomeInTime(tmp_path, "2026-03-02T10:00:00Z", files)
    with at.open() as agent:
        agent.start("g.once")
        agent.start("g.a")
        agent.elapse(seconds=5)
        once, row = sorted(agent.ask("attention"), key=lambda line: "runs of" in line["text"])
        assert "3 runs of g.a failed" in row["text"]
        assert once["text"].endswith(" --reason TEXT"), "the message is cut, not the command"
        at.write("mended", "")
        agent.elapse(seconds=5)
        assert [line["text"] for line in agent.ask("attention")] == [once["text"]]


def test_M52_what_ends_well_closes_the_failures_before_it_and_not_those_of_another_run(
    tmp_path: Path,
) -> None:
    inside = '<state name="start" command="test -e mended"/>'
    at = HomeInTime(tmp_path, "2026-03-02T10:00:00Z", {"recipes/a.xml": automaton(inside, 'restart="yes"')})
    with at.open() as agent:
        agent.start("g.a")
        agent.elapse(seconds=0.5)
        other = agent.start("g.a")
        agent.elapse(seconds=0.2)
        at.write("mended", "")
        agent.elapse(seconds=0.5)
        (line,) = agent.ask("attention")
        assert f"run {other} of g.a failed" in line["text"]
        agent.elapse(seconds=0.5)
        assert agent.ask("attention") == []


@pytest.mark.parametrize("is_restarted", [False, True])
def test_M52_alike_runs_that_fail_at_one_moment_close_each_its_own_failure(
    tmp_path: Path, is_restarted: bool
) -> None:
    inside = '<state name="start" command="test -e mended"/>'
    at = HomeInTime(tmp_path, "2026-03-02T10:00:00Z", {"recipes/a.xml": automaton(inside, 'restart="yes"')})
    with at.open() as agent:
        for _ in range(2):
            agent.start("g.a")
        agent.elapse(seconds=0.1)
        (line,) = agent.ask("attention")
        assert "2 runs of g.a failed" in line["text"]
        at.write("mended", "")
        if not is_restarted:
            agent.elapse(seconds=2)
            assert agent.ask("attention") == []
    if is_restarted:
        with at.open() as agent:
            agent.elapse(seconds=2)
            assert agent.ask("attention") == []


def test_M52_what_began_with_other_elements_closes_only_its_own_failures(tmp_path: Path) -> None:
    script = '<env name="N"><match>x</match></env>test -e mended-$N'
    inside = f'<state name="start" command="sh">{script}</state>'
    at = HomeInTime(tmp_path, "2026-03-02T10:00:00Z", {"recipes/a.xml": automaton(inside, 'restart="yes"')})
    with at.open() as agent:
        runs = agent.start_each("g.a", ["<x>0</x>", "<x>1</x>"])
        agent.elapse(seconds=0.5)
        last, first = agent.daemon.agent.runs.latest_failures(2)
        at.write(f"mended-{runs.index(first.eid)}", "")
        agent.elapse(seconds=1)
        memory = agent.daemon.agent.memory
        open_ones = [one.origin.run for one in agent.memory("failure") if one.eid not in memory.outdated]
        assert open_ones[0] == last.eid
        assert len(open_ones) == 2, "the other that failed, and the next after it"


@in_a_loop
async def test_A18_it_begins_again_when_its_time_has_come_also_after_the_daemon_was_killed(
    tmp_path: Path,
) -> None:
    script = "echo x >>begun; n=$(cat begun | wc -l); test $n -lt 2 -o $n -gt 5"
    state = f'<state name="start" command="sh">{script}</state>'
    scene = scene_of(tmp_path, automaton(state, 'restart="yes"'))
    agent = await scene.passes(7.0, lambda turn: turn.start("g.a"))
    assert states(agent) == ["done", "failed", "failed", "failed"], (
        "at 0, 1, 2 and 4; the next is put off to 8"
    )
    await killed(scene)
    agent = await scene.passes(2.0)
    assert states(agent)[4:] == ["failed"], "next at 16"
    await killed(scene)
    agent = await scene.passes(8.5)
    assert states(agent)[5:] == ["done", "done"], "at 16 and 17"
    await scene.end()


@in_a_loop
async def test_A21_the_tries_of_a_command_are_counted_on_after_the_daemon_was_killed(tmp_path: Path) -> None:
    state = """<state name="start">
      <command command="sh" retries="2" backoff="60">echo first >>begun; exit 1</command>
      <command command="sh">echo second >>begun</command>
    </state>"""
    scene = scene_of(tmp_path, automaton(state))
    await scene.passes(30.0, lambda turn: turn.start("g.a"))
    begun = scene.home.path / "begun"
    assert begun.read_text() == "first\n"
    await killed(scene)
    await scene.passes(60.0)
    assert begun.read_text() == "first\n" * 2
    await killed(scene)
    agent = await scene.passes(600.0)
    assert begun.read_text() == "first\n" * 3 + "second\n"
    assert states(agent) == ["done"]
    await scene.end()
