"""A stage for scenarios: a small home in a folder, whose actions leave a trace when really called."""

from __future__ import annotations

import asyncio
from pathlib import Path

from narval.core.source.text import Source
from narval.files.home import Home
from narval.trials.simulate.parser import read_scenario
from narval.trials.simulate.report import SimulationReport
from narval.trials.simulate.scenario import Scenario
from narval.trials.simulate.simulated_home import SimulatedHome, simulated_home
from narval.trials.simulate.simulation import play_scenario, start_of

MODULE = """\
from pathlib import Path

from narval import Input, Output, action, call


def really(name):
    with Path(call().home, f"{name}.called").open("a") as trace:
        trace.write("x")


@action(runs="inline", pure=True)
def nothing():
    pass


@action(outputs=[Output("round", "round")], runs="inline", pure=True)
def again():
    return "<round/>"


@action(inputs=[Input("order", "order")], outputs=[Output("bill", "bill[@of]")], runs="inline", pure=True)
def price(order):
    return f"<bill of='{order.attributes['id']}'/>"


@action(inputs=[Input("bill", "bill", use=True)], outputs=[Output("receipt", "receipt[@how='post' and @at]")])
def post(bill):
    really("post")
    return "<receipt how='post' at='noon'/>"


@action(inputs=[Input("order", "order")], outputs=[Output("answer", "*[@of and not(self::order)]")])
def ask(order):
    really("ask")
    return "<answer of='it'/>"


@action(inputs=[Input("note", "note", optional=True)])
def tell(note):
    really("tell")


@action(source=True, outputs=[Output("order", "order", list=True)])
async def orders():
    really("orders")
    yield "<order id='real'/>"
"""

RECIPES = """\
<cookbook group="shop">
  <recipe group="shop" name="sell" start_step="wait" end_step="post" restart="yes">
    <step id="wait" type="action" target="shop.nothing"/>
    <step id="price" type="action" target="shop.price"/>
    <step id="post" type="action" target="shop.post"/>
    <transition id="comes">
      <in idref="wait"/><out idref="price"/>
      <condition use="yes"><match>order[@id]</match></condition>
    </transition>
    <transition id="priced"><in idref="price"/><out idref="post"/></transition>
  </recipe>
  <recipe group="shop" name="wonder" start_step="ask" end_step="ask">
    <step id="ask" type="action" target="shop.ask"/>
  </recipe>
  <recipe group="shop" name="tell" start_step="tell" end_step="tell">
    <step id="tell" type="action" target="shop.tell"/>
  </recipe>
  <recipe group="shop" name="stubborn" start_step="tell" end_step="tell">
    <step id="tell" type="action" target="shop.tell" retries="3" backoff="10"/>
  </recipe>
  <recipe group="shop" name="careful" start_step="ask" end_step="tell">
    <step id="ask" type="action" target="shop.ask" timeout="60"/>
    <step id="tell" type="action" target="shop.tell"/>
    <transition id="fails"><in idref="ask" on-error="yes"/><out idref="tell"/></transition>
  </recipe>
  <recipe group="shop" name="listen" start_step="listen" end_step="listen">
    <step id="listen" type="action" target="shop.orders"/>
  </recipe>
  <recipe group="shop" name="rounds" start_step="again" end_step="end">
    <step id="again" type="action" target="shop.again"/><step id="end" type="action" target="shop.nothing"/>
    <transition id="t"><in idref="again"/><out idref="end"/>
      <condition use="yes"><match>round</match></condition></transition>
  </recipe>
</cookbook>
"""

DECLARED = """\
<memory>
  <shop name="corner"/>
  <start-plan recipe="shop.sell"/>
</memory>
"""


def make_shop(place: Path) -> Home:
    """A home that sells things."""
    for part in ("etc", "recipes", "modules", "data"):
        (place / part).mkdir(parents=True)
    (place / "modules" / "shop.py").write_text(MODULE)
    (place / "recipes" / "shop.xml").write_text(RECIPES)
    (place / "data" / "memory.xml").write_text(DECLARED)
    (place / "etc" / "narval.toml").write_text('timezone = "Europe/Paris"\n')
    return Home(place)


def scenario_of(text: str, here: SimulatedHome, path: str = "scenarios/it.xml") -> Scenario:
    return read_scenario(Source.of_text(path, text), here.known)


def play(home: Home, text: str) -> SimulationReport:
    """What comes of the text of a scenario."""
    here = simulated_home(home)
    scenario = scenario_of(text, here)
    return asyncio.run(play_scenario(here, scenario, start_of(here, scenario)))


def what(report: SimulationReport, *kinds: str) -> list[tuple[float, str]]:
    """What happened of some kinds, each with its seconds after the start."""
    return [(line["at"] - report.start, line["what"]) for line in report.lines if line["what"] in kinds]


def really_called(home: Home) -> list[str]:
    """The actions that were called after all."""
    return sorted(path.stem for path in home.path.glob("*.called"))
