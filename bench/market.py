"""W23: a market of agents: what a message costs, with the plans that send and take it.

    python -m bench.market [AGENTS [ORDERS]]

A buyer calls for bids, as the how-to does: for each of the other agents (199 by default) a plan sends it the
order and waits for its bid, or for a deadline. In each seller a plan takes the order, an action makes a bid,
and that is sent back. When all have answered, the cheapest is sent the award. So an order is two messages a
seller and one more; each bid is taken by the plan that waits for it alone. The figures are of processor time
and of calls of functions, a message.
"""

from __future__ import annotations

import asyncio
import cProfile
import pstats
from pathlib import Path
from time import process_time
from typing import Any

from bench.agents import ask
from bench.measure import argument, emit, home, scratch, us
from narval.daemon.daemon import Daemon
from narval.files.home import Home

MODULE = """
from narval import Input, Message, Output, action

@action(inputs=[Input("order", "order"), Input("seller", "seller")], outputs=[Output("asked", "asked")],
        runs="inline")
def ask(order, seller):
    id, name = order.attributes["id"], seller.attributes["name"]
    return [f"<asked order='{id}' seller='{name}'/>", Message(name, order)]

@action(inputs=[Input("order", "order")], runs="inline")
def bid(order):
    return Message(order.sender, f"<bid order='{order.attributes['id']}' price='{order.eid}'/>")

@action(inputs=[Input("bid", "bid", optional=True)], outputs=[Output("offer", "offer", optional=True)],
        runs="inline")
def note(bid):
    return bid and f"<offer seller='{bid.sender}' price='{bid.attributes['price']}'/>"

@action(inputs=[Input("offers", "offer", list=True)], outputs=[Output("award", "award")], runs="inline")
def award(offers):
    seller = min(offers, key=lambda offer: int(offer.attributes["price"])).attributes["seller"]
    return [f"<award bids='{len(offers)}'/>", Message(seller, "<award/>")]

@action(runs="inline")
def nothing():
    pass
"""
RECIPES = """<cookbook group="m">
  <recipe name="buy" start_step="ask" end_step="award">
    <step id="ask" type="recipe" target="m.one" foreach="seller"/>
    <step id="award" type="action" target="w.award">
      <input id="offers"><match>offer[@eid = $ask/@eid]</match></input></step>
    <transition id="t"><in idref="ask"/><out idref="award"/></transition></recipe>
  <recipe name="one" start_step="ask" end_step="note">
    <step id="ask" type="action" target="w.ask"/>
    <step id="note" type="action" target="w.note">
      <input id="bid"><match>bid[@eid = $bid/@eid]</match></input></step>
    <transition id="answered" priority="1"><in idref="ask"/><out idref="note"/><condition as="bid" use="yes">
      <match>bid[@order = $ask/@order and @al:from = $ask/@seller]</match></condition></transition>
    <transition id="late"><in idref="ask"/><out idref="note"/><time after="10m"/></transition></recipe>
  <recipe name="sell" start_step="wait" end_step="bid" restart="parallel">
    <step id="wait" type="action" target="w.nothing"/> <step id="bid" type="action" target="w.bid"/>
    <transition id="t"><in idref="wait"/><out idref="bid"/>
      <condition use="yes"><match>order[@al:from]</match></condition></transition></recipe>
</cookbook>"""


class Market:
    """A buyer, the home's own agent, and so many sellers that listen."""

    def __init__(self, daemon: Daemon, sellers: int) -> None:
        self.daemon, self.sellers = daemon, sellers
        self._orders = 0

    @classmethod
    async def opened(cls, folder: Path, sellers: int) -> Market:
        """A market in a home of its own, warm: an order was placed."""
        home(folder, module=MODULE, recipes=RECIPES, settings="idle_after = '1h'\n")
        market = cls(await Daemon.open(Home(folder)), sellers)
        names = [f"s{number}" for number in range(sellers)]
        for name in names:
            await ask(market.daemon, "", "add_agent", name=name)
            await ask(market.daemon, name, "start", name="m.sell")
        await ask(market.daemon, "", "add", elements=[f"<seller name='{name}'/>".encode() for name in names])
        await market.order()
        return market

    async def order(self) -> int:
        """Place an order, until its award is sent; the number of messages."""
        self._orders += 1
        order = b"<order id='%d'/>" % self._orders
        await ask(self.daemon, "", "start", name="m.buy", elements=[order])
        await self.daemon.main_loop.until_idle()
        awards = await ask(self.daemon, "", "count", xpath=f"award[@bids='{self.sellers}']")
        assert awards["count"] == self._orders
        return 2 * self.sellers + 1


async def market(folder: Path, agents: int, orders: int) -> dict[str, Any]:
    """What a message costs."""
    market = await Market.opened(folder, agents - 1)
    began, messages = process_time(), 0
    for _ in range(orders):
        messages += await market.order()
    used, profile = process_time() - began, cProfile.Profile()
    with profile:
        counted = await market.order()
    await market.daemon.close()
    calls: int = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
    return {"n": messages, "seconds": used, "us": us(used, messages), "calls": round(calls / counted)}


if __name__ == "__main__":
    with scratch() as folder:
        figures = asyncio.run(market(folder, argument(1, 200), argument(2, 5)))
    emit("W23-market", figures.pop("n"), figures.pop("seconds"), **figures)
