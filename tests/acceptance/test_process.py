"""A process, as people drive it by the command line while the daemon is killed (section 1, N35)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.home import Narval, make, until
from tests.forked_commands import Command
from tests.places import ROOT


def orders(folder: Path) -> Narval:
    """A home with the order that ships, and nothing else."""
    narval = make(folder)
    for path in ("recipes/orders.xml", "modules/orders.py"):
        narval.write(path, (ROOT / path).read_bytes())
    return narval


def begun(narval: Narval) -> Command:
    daemon = narval.daemon()
    assert b"is ready" in daemon.stdout.readline()
    return daemon


def killed(daemon: Command) -> None:
    daemon.kill()
    daemon.communicate()


def standing(narval: Narval, run: str) -> dict[str, str]:
    return {token["node"]: token["state"] for token in narval.ask("tokens", run)["tokens"]}


def attributes(narval: Narval, run: str) -> dict[str, Any]:
    found: dict[str, Any] = narval.ask("environment", run)["environment"]
    return found


@pytest.mark.parametrize("wait_for_charge", [True, False])
def test_an_order_survives_a_kill_after_every_step(tmp_path: Path, wait_for_charge: bool) -> None:
    narval = orders(tmp_path)
    daemon = begun(narval)
    run = narval("start", "orders.order", "--env", "amount=700").stdout.decode().strip()
    killed(daemon)
    daemon = begun(narval)
    until(lambda: standing(narval, run).get("enter") == "active", "the order is to be entered")
    narval.ask("complete", run, "enter")
    killed(daemon)

    daemon = begun(narval)
    until(lambda: standing(narval, run).get("call") == "active", "the card is declined")
    assert standing(narval, run)["remind"] == "delayed"
    narval.ask("environment", run, "amount=70")
    narval.ask("complete", run, "call")
    if wait_for_charge:
        until(lambda: attributes(narval, run).get("paid") == "true", "the card is charged")
    killed(daemon)

    daemon = begun(narval)
    until(lambda: attributes(narval, run).get("paid") == "true", "the card is charged")
    assert narval.ask("complete", run, "ship")["state"] == "executing"
    until(lambda: standing(narval, run).get("done") == "complete", "the customer is thanked")
    assert attributes(narval, run)["thanked"] == "true"
    assert len(narval.ask("memory", "charge")) == 1
    assert len(narval.ask("memory", "todo")) == 3
    narval.ask("backtrack", run, "ship")
    killed(daemon)

    daemon = begun(narval)
    assert standing(narval, run)["ship"] == "active"
    assert narval("complete", run, "enter").returncode == 1
    narval.ask("cancel", run)
    killed(daemon)
    assert narval.ask("runs", "--name", "orders.order")[0]["phase"] == "cancelled"


def test_what_is_asked_without_a_daemon_is_done_by_the_next(tmp_path: Path) -> None:
    narval = orders(tmp_path)
    with narval.running():
        run = narval("start", "orders.order", "--env", "amount=70").stdout.decode().strip()
        until(lambda: standing(narval, run).get("enter") == "active", "the order is to be entered")
    assert narval.ask("complete", run, "enter")["state"] == "executing"
    assert standing(narval, run)["bill"] == "active"
    with narval.running():
        until(lambda: attributes(narval, run).get("paid") == "true", "the card is charged")


OUTER = """
<cookbook group="deep">
  <recipe name="outer" start_step="a" end_step="a"><step id="a" type="process" target="mid.p"/></recipe>
  <recipe name="inner" start_step="a" end_step="a"><step id="a" type="process" target="low.p"/></recipe>
</cookbook>
"""
MIDDLE = """
<process-definition name="p">
  <node name="n" type="recipe" isStart="true">
    <arc to="after"/>
    <custom><target>deep.inner</target></custom>
  </node>
  <node name="after" type="wait"/>
</process-definition>
"""
BOTTOM = """
<process-definition name="p">
  <node name="t" type="task" isStart="true"><custom><title>At the bottom</title></custom></node>
</process-definition>
"""


def test_a_recipe_calls_a_process_that_calls_a_recipe_that_calls_a_process(tmp_path: Path) -> None:
    narval = orders(tmp_path)
    for name, text in (("deep", OUTER), ("mid", MIDDLE), ("low", BOTTOM)):
        narval.write(f"recipes/{name}.xml", text)
    daemon = begun(narval)
    outer = narval("start", "deep.outer").stdout.decode().strip()
    bottom = "todo[@title='At the bottom']"
    until(lambda: narval.ask("memory", bottom), "the task at the bottom")
    killed(daemon)

    daemon = begun(narval)
    by_name = {run["name"]: str(run["eid"]) for run in narval.ask("runs")}
    narval.ask("complete", by_name["low.p"], "t")
    until(lambda: standing(narval, by_name["mid.p"]).get("after") == "active", "the recipe between is done")
    narval.ask("complete", by_name["mid.p"], "after")
    until(lambda: narval.ask("show", outer)["phase"] == "done", "the outermost plan is done")

    second = narval("start", "deep.outer").stdout.decode().strip()
    until(lambda: len(narval.ask("memory", bottom)) == 2, "the second task at the bottom")
    narval.ask("cancel", second)
    until(
        lambda: {run["phase"] for run in narval.ask("runs", "--limit", "4")} == {"cancelled"},
        "all that it called is cancelled",
    )
    killed(daemon)
