"""The how-to on calling for bids, where an agent is silent or lies: its deadline, and its senders."""

from __future__ import annotations

from pathlib import Path

import narval
from narval.surfaces.python.agent import Agent
from tests.docs.typed import blocks
from tests.places import ROOT

PAGE = (ROOT / "docs/how-to/call-for-bids").with_suffix(".md")
ORDER = "<order id='7'/>"
NORTH, WEST = "<seller name='north'/>", "<seller name='west'/>"


def market(folder: Path) -> None:
    """A home with the files of the page."""
    for _, title, text in blocks(PAGE):
        if title:
            file = folder / title.removeprefix("~/.narval/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)


def prices(agent: Agent, pattern: str) -> list[str]:
    """The prices of the elements that fit."""
    return [element.select("string(@price)") for element in agent.memory(pattern)]


def state(agent: Agent, run: int) -> str:
    """The state of a run."""
    return next(str(each["state"]) for each in agent.runs() if each["eid"] == run)


def test_the_deadline_ends_the_call_and_a_bid_counts_for_its_sender_alone(tmp_path: Path) -> None:
    market(tmp_path)
    clock = narval.SimulatedClock(1_800_000_000.0)
    with narval.open(tmp_path, clock=clock) as buyer:
        for name in ("north", "west"):
            buyer.ask("add_agent", name=name)
        north, west = buyer.other("north"), buyer.other("west")
        north.add("<price>3</price>")
        north.start("market.sell")
        run = buyer.start("market.buy", ORDER, NORTH, WEST)
        buyer.until_idle()
        assert state(buyer, run) == "running"
        west.send("narval", "<bid order='8' price='1'/>")  # of an order that nobody has
        buyer.elapse(seconds=540)
        assert state(buyer, run) == "running"
        buyer.elapse(seconds=61)
        assert state(buyer, run) == "done"
        assert prices(north, "award[@seller='north']") == ["3.00"]
        west.send("narval", "<bid order='7' price='1'/>")  # too late
        buyer.until_idle()
        assert prices(buyer, "offer") == ["3.00"]
