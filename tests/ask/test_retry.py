"""`narval retry`: a run begun again from a step, as a new run, through every surface and after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import narval as library
from narval.core.errors import RequestError
from narval.surfaces.python.agent import Agent
from tests.surfaces.cli.command_line import daemon, data, make_home, narval, run_of, until, well

MODULE = """
from pathlib import Path
from narval import Input, Output, action

@action(inputs=[Input("order", "order", use=True)], outputs=[Output("bill", "bill")], runs="inline")
def bill(order):
    return f"<bill n='{order.attributes['n']}'/>"

@action(inputs=[Input("bill", "bill", use=True)], outputs=[Output("sent", "sent")], runs="inline")
def send(bill):
    if not Path(__file__).with_name("post").exists():
        raise ValueError("the post office is closed")
    return f"<sent n='{bill.attributes['n']}'/>"
"""
RECIPE = """<recipe group="r" name="order" start_step="bill" end_step="send"{more}>
  <step id="bill" type="action" target="shop.bill"/><step id="send" type="action" target="shop.send"/>
  <transition id="t"><in idref="bill"/><out idref="send"/></transition>
</recipe>"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = make_home(tmp_path / "home")
    (made / "recipes" / "r.xml").write_text(RECIPE.format(more=""))
    (made / "modules" / "shop.py").write_text(MODULE)
    return made


@pytest.fixture
def agent(home: Path) -> Iterator[Agent]:
    with library.open(home) as agent:
        yield agent


def failed(agent: Agent) -> int:
    run = agent.start("r.order", "<order n='7'/>")
    agent.until_idle()
    assert agent.run(run)["error"]["message"] == "the post office is closed"
    return run


def mend(home: Path) -> None:
    (home / "modules" / "post").touch()


def test_a_failed_run_goes_on_where_it_failed_and_bills_nobody_twice(agent: Agent, home: Path) -> None:
    run = failed(agent)
    mend(home)
    again = agent.retry(run)
    agent.until_idle()
    shown = agent.run(again)
    assert (shown["state"], shown["retry_of"]) == ("done", {"run": run, "step": "send"})
    listed = {row["eid"]: row["retry_of"] for row in agent.runs()}
    assert (listed[again], listed[run]) == ({"run": run}, None)
    assert len(agent.memory("bill")) == 1
    assert len(agent.memory("sent[@n='7']")) == 1
    assert set(agent.run(run)["context"]) <= set(shown["context"])
    assert agent.run(run)["retry_of"] is None
    assert [element.eid for element in agent.memory(f"plan[@retry_of='{run}']")] == [again]


def test_a_step_that_was_done_outside_counts_with_what_it_gave(agent: Agent) -> None:
    run = failed(agent)
    with pytest.raises(RequestError, match="say done too"):
        agent.retry(run, gave=[1])
    sent = agent.add("<sent n='by hand'/>")
    planned = agent.ask("retry_plan", run=run, done=True, gave=[sent])
    assert (planned["from"], planned["kept"][-2]["id"], planned["again"]) == ("send", "send", [])
    again = agent.retry(run, done=True, gave=[sent])
    agent.until_idle()
    shown = agent.run(again)
    assert (shown["state"], sent in shown["context"]) == ("done", True)
    assert agent.ask("incidents") == []


def test_from_an_earlier_step_its_work_is_done_again(agent: Agent, home: Path) -> None:
    run = failed(agent)
    mend(home)
    again = agent.retry(run, "bill")
    agent.until_idle()
    assert agent.run(again)["state"] == "done"
    assert len(agent.memory("bill")) == 2
    done = agent.retry(again, "send")
    agent.until_idle()
    assert agent.run(done)["state"] == "done"
    assert len(agent.memory("sent")) == 2


def test_the_present_definition_is_followed(agent: Agent, home: Path) -> None:
    run = failed(agent)
    agent.load(RECIPE.format(more="").replace("shop.send", "talk.nothing"))
    again = agent.retry(run)
    agent.until_idle()
    assert agent.run(again)["state"] == "done"
    assert agent.run(again)["definition"] != agent.run(run)["definition"]


def test_what_cannot_be_retried_is_said_plainly(agent: Agent) -> None:
    waiting = agent.start("demo.await")
    agent.until_idle()
    with pytest.raises(RequestError, match="is not over yet: it is running"):
        agent.retry(waiting)
    run = failed(agent)
    with pytest.raises(RequestError, match=r"r\.order has no step 'post' now; it has bill, send"):
        agent.retry(run, "post")
    with pytest.raises(RequestError, match="there is no run 9999"):
        agent.retry(9999)


def test_N5_what_was_forgotten_cannot_be_built_upon(home: Path) -> None:
    (home / "etc" / "narval.toml").write_text("forget_after = 60\n")
    (home / "recipes" / "r.xml").write_text(RECIPE.format(more=' decay="86400"'))  # the run stays, for a day
    with library.open(home, clock=library.SimulatedClock(1_000_000.0)) as agent:
        run = failed(agent)
        agent.elapse(minutes=5)
        assert agent.memory("bill") == []
        with pytest.raises(
            RequestError, match=r"what step bill of run .* has been forgotten: retry from there"
        ):
            agent.retry(run)


def test_N35_a_retry_survives_a_restart_before_it_is_told(home: Path) -> None:
    with library.open(home) as agent:
        run = failed(agent)
    mend(home)
    again = int(well(home, "retry", run))
    assert data(home, "show", again)["state"] == "ready"
    with library.open(home) as agent:
        agent.until_idle()
        assert agent.run(again)["state"] == "done"
        assert agent.run(again)["retry_of"] == {"run": run, "step": "send"}
    with library.open(home) as agent:
        assert agent.run(again)["retry_of"] == {"run": run, "step": "send"}
        assert len(agent.memory("sent")) == 1


def test_the_command_prints_the_new_run(home: Path) -> None:
    with daemon(home):
        narval(home, "start", "r.order", "-", "--wait", given="<order n='1'/>")
        run = run_of(home, "r.order")
        mend(home)
        again = data(home, "retry", run, "--from", "send")
        until(lambda: data(home, "show", again["eid"])["phase"] == "done")
        assert f"retry of    run {run}, from step send" in well(home, "show", again["eid"])
        refused = narval(home, "retry", again["eid"])
        assert (refused.exit_code, "name the step to retry from" in refused.stderr) == (1, True)
