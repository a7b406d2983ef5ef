"""`agent.simulate`: the same from within a program, on what an agent has loaded and remembers."""

from __future__ import annotations

from pathlib import Path

import pytest

import narval
from narval.core.errors import DefinitionError, RequestError
from narval.files.home import Home
from narval.surfaces.python.agent import Agent
from tests.trials.simulate.homes import MODULE, RECIPES, really_called
from tests.trials.simulate.test_memory_copy import prints


@pytest.fixture
def seller(agent: Agent, tmp_path: Path) -> Agent:
    """An agent in memory that knows how to sell."""
    (tmp_path / "shop.py").write_text(MODULE)
    agent.load(tmp_path / "shop.py")
    agent.load(RECIPES)
    return agent


def test_an_agent_in_memory_goes_on_as_if_nothing_had_happened(seller: Agent) -> None:
    eid = seller.add("<order id='1'/>")
    found = seller.simulate("shop.sell", until="1d", at="2026-11-21T08:00")
    assert found["well"]
    assert {"action": "shop.post", "how": "made up", "count": 1} in found["calls"]
    assert [line["elements"] for line in found["happened"] if line["what"] == "fired"] == [[eid]]
    assert seller.memory("bill") == []
    assert seller.runs() == []
    assert seller.add("<order id='2'/>") == eid + 1


def test_a_scenario_as_a_text_or_a_file(seller: Agent, tmp_path: Path) -> None:
    text = """<scenario><start recipe="shop.sell"/><arrive><order id="1"/></arrive>
      <expect><element match="receipt" count="2"/></expect></scenario>"""
    found = seller.simulate(text)
    assert [(line["found"], line["met"]) for line in found["expected"]] == [(1, False)]
    (tmp_path / "it.xml").write_text(text.replace('count="2"', 'count="1"'))
    assert seller.simulate(tmp_path / "it.xml")["well"]


def test_what_is_wrong_is_refused(seller: Agent) -> None:
    with pytest.raises(DefinitionError, match=r"scenario:1:26: there is no definition"):
        seller.simulate("<scenario><start recipe='shop.sel'/></scenario>")
    with pytest.raises(RequestError, match="there is no definition 'nothing'"):
        seller.simulate("nothing")
    with pytest.raises(RequestError, match="there is no scenario"):
        seller.simulate(Path("nothing.xml"))
    with pytest.raises(RequestError, match="expected until to be a time after the start"):
        seller.simulate("shop.sell", until="soon")
    with pytest.raises(RequestError, match="expected memory to be new, now or empty"):
        seller.simulate("shop.sell", memory="old")


def test_a_home_that_is_open_is_not_altered(shop: Home) -> None:
    with narval.open(shop.path, clock=narval.SimulatedClock("2026-11-21T08:00")) as agent:
        agent.until_idle()
        before, runs = prints(shop), agent.runs()
        found = agent.simulate(
            """<scenario memory="now"><start recipe="shop.wonder"><order id="1"/></start></scenario>"""
        )
        assert not found["well"]
        assert found["from"].startswith("2026-11-21T09:00")
        assert prints(shop) == before
        assert agent.runs() == runs
        agent.add("<order id='1'/>")
        agent.until_idle()
    assert really_called(shop) == ["post"]
