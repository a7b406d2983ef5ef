"""A run as it was: every point of a history gives the state that the run had then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.agent.history import past
from narval.core.errors import RequestError
from narval.store import codec
from narval.store.batch import Batch, JournalRow, SnapshotRow
from narval.store.store import ALL
from narval.surfaces.python.agent import Agent

MODULE = """
from narval import Input, Output, action

@action(inputs=[Input("mail", "mail", use=True)], outputs=[Output("page", "page")], runs="inline")
def read(mail):
    return "<page/>"

@action(runs="inline")
def fails():
    raise ValueError("never well")
"""
RECIPES = """<cookbook>
<recipe group="p" name="line" start_step="a" end_step="z">
  <step id="a" type="action" target="p.read"/><step id="z" type="action" target="p.fails"/>
  <transition id="t"><in idref="a"/><out idref="z"/><condition><match>go[@for=$plan/@name]</match></condition>
  </transition>
</recipe>
</cookbook>"""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    (tmp_path / "p.py").write_text(MODULE)
    with narval.open() as agent:
        agent.load(tmp_path / "p.py")
        agent.load(RECIPES)
        yield agent


def story(agent: Agent) -> int:
    """A plan that read a mail, waited, was let go on, and failed."""
    run = agent.start("p.line", "<mail/>")
    agent.until_idle()
    agent.add("<go for='line'/>")
    agent.until_idle()
    assert agent.run(run)["state"] == "failed"
    return run


def line_of(agent: Agent, run: int, what: str, **fields: Any) -> dict[str, Any]:
    lines = [line for line in agent.history(run) if line["what"] == what]
    return next(line for line in lines if all(line.get(key) == value for key, value in fields.items()))


def test_each_point_shows_what_was_so_then(agent: Agent) -> None:
    run = story(agent)
    made = line_of(agent, run, "StepRunning", step="a")["seq"]
    asleep = line_of(agent, run, "TransitionWaiting")["seq"]
    fired = line_of(agent, run, "TransitionFired")["seq"]
    found = {seq: agent.run(run, seq) for seq in (made, asleep, fired)}
    assert [step["state"] for step in found[made]["steps"]] == ["running", "todo"]
    assert [step["state"] for step in found[asleep]["steps"]] == ["done", "todo"]
    assert found[asleep]["transitions"] == [{"id": "t", "state": "wait-condition"}]
    assert [step["state"] for step in found[fired]["steps"]] == ["history", "ready"]
    assert {each["phase"] for each in found.values()} == {"active"}
    assert {each["ended"] for each in found.values()} == {None}


def test_the_first_line_shows_a_run_that_has_done_nothing_and_the_last_the_run_as_it_is(agent: Agent) -> None:
    run = story(agent)
    lines = agent.history(run)
    first, last = agent.run(run, lines[0]["seq"]), agent.run(run, lines[-1]["seq"])
    assert (first["state"], first["context"], first["error"]) == ("ready", [], None)
    now = agent.run(run)
    assert {key: last[key] for key in now} == now
    assert (last["seq"], last["at"]) == (lines[-1]["seq"], lines[-1]["at"])


def test_the_context_is_what_the_run_held_then(agent: Agent) -> None:
    run = story(agent)
    asleep = line_of(agent, run, "TransitionWaiting")["seq"]
    names = [agent.element(eid) for eid in agent.run(run, asleep)["context"]]
    assert [element and element.name for element in names] == ["mail", "page"]
    assert b'state="running"' in agent.ask("xml", run=run, at=asleep)["xml"].encode()
    assert "wait-condition" in str(agent.run(run, asleep)["transitions"])
    assert agent.ask("graph", run=run, at=asleep)["dot"] != agent.ask("graph", run=run)["dot"]


def test_between_two_lines_of_a_run_are_those_of_others(agent: Agent) -> None:
    run = story(agent)
    seqs = [line["seq"] for line in agent.history(run)]
    gap = next((seq for seq in range(seqs[0], seqs[-1]) if seq not in seqs), None)
    found = agent.run(run, gap if gap is not None else seqs[3])
    assert found["seq"] in seqs


@pytest.mark.parametrize("seq", [0, -1, 10**9])
def test_a_point_outside_of_its_history_is_refused(agent: Agent, seq: int) -> None:
    run = story(agent)
    lines = agent.history(run)
    why = f"the history of run {run} of p.line has lines {lines[0]['seq']} to {lines[-1]['seq']}, got {seq}"
    with pytest.raises(RequestError, match=why):
        agent.run(run, seq)


def test_where_the_beginning_is_no_longer_kept_it_is_shown_from_the_snapshot_on(agent: Agent) -> None:
    run = agent.start("p.line", "<mail/>")
    agent.until_idle()
    daemon = agent.daemon
    known, store = daemon.agent.runs[run], daemon.agent.store
    saved = agent.history(run)[-1]["seq"]
    batch = Batch(1)
    batch.snapshots.append(SnapshotRow(run, saved, codec.encode_snapshot(known.state, known.commands())))
    daemon.store.commit(batch)
    agent.add("<go for='line'/>")
    agent.until_idle()
    whole = {seq: agent.run(run, seq) for seq in range(saved, agent.history(run)[-1]["seq"] + 1)}
    rows = [row for row in store.journal(run) if row.seq > saved]

    def journal(run: int, after: int = 0, before: int | None = None, most: int = ALL) -> Iterator[JournalRow]:
        return iter([row for row in rows if row.seq > after][:most])

    store.journal = journal  # type: ignore[method-assign]
    for seq, before in whole.items():
        if seq >= rows[0].seq:
            assert agent.run(run, seq) == before
    at_snapshot = past(daemon.agent, known, saved)
    assert (at_snapshot.state.status, at_snapshot.finish) == ("running", None)
    with pytest.raises(RequestError, match=f"has lines {saved} to .*; what was before is no longer kept"):
        agent.run(run, saved - 1)


def test_a_snapshot_that_cannot_be_read_is_left_out_if_all_entries_are_kept(agent: Agent) -> None:
    run = story(agent)
    last = agent.history(run)[-1]["seq"]
    whole = agent.run(run, last)
    batch = Batch(1)
    batch.snapshots.append(SnapshotRow(run, last - 1, b"damaged"))
    agent.daemon.store.commit(batch)
    assert agent.run(run, last) == whole
