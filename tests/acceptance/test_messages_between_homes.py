"""Two daemons on one PostgreSQL that send to one another and call one another, each killed in the middle."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from narval.core.errors import DaemonGoneError, ElsewhereError
from narval.files.home import Home
from narval.surfaces.control.client import Client
from tests.acceptance.home import PATIENCE, Narval, make, until
from tests.forked_commands import Command

PAIRS, EACH, CALLS = 30, 4, 15
RECIPES = """<cookbook>
<recipe group="w" name="tells" start_step="a" end_step="a">
  <step id="a" type="send" to-select="order/@for">
    <input id="order" list="yes" use="yes"><match>order</match></input></step>
</recipe>
<recipe group="w" name="asks" start_step="a" end_step="a">
  <step id="a" type="recipe" target="w.invoice" agent="{other}" timeout="1h">
    <input id="order" use="yes"><match>order</match></input></step>
</recipe>
<recipe group="w" name="invoice" start_step="a" end_step="a">
  <step id="a" type="action" target="w.invoice"/>
</recipe>
</cookbook>"""
MODULE = """
from narval import Input, Output, action

@action(inputs=[Input("order", "order")], outputs=[Output("invoice", "invoice")], runs="inline")
def invoice(order):
    return f"<invoice of='{order.attributes.get('n')}'/>"
"""
NAMES = ("attic", "barn")


class Homes:
    """The two homes, and their daemons."""

    def __init__(self, folder: Path, url: str) -> None:
        self.homes: dict[str, Narval] = {}
        self._daemons: dict[str, Command] = {}
        for name, other in (NAMES, NAMES[::-1]):
            offers = '[agent]\noffers = {"w.invoice" = ["*"]}\n'
            settings = f'name = "{name}"\nstore = "{url}"\nturn_limit = 20\n{offers}'
            recipes = RECIPES.replace("{other}", other)
            self.homes[name] = make(folder / name, recipes=recipes, module=MODULE, settings=settings)

    def start(self, name: str) -> None:
        """Start a daemon; it is ready."""
        daemon = self._daemons[name] = self.homes[name].daemon()
        ready = daemon.stdout.readline()
        assert b"is ready" in ready, daemon.communicate(timeout=PATIENCE)[1].decode()

    def kill(self, name: str) -> None:
        """Kill a daemon with SIGKILL."""
        daemon = self._daemons.pop(name)
        daemon.kill()
        daemon.communicate(timeout=PATIENCE)

    def close(self) -> None:
        for name in list(self._daemons):
            self.kill(name)

    def ask(self, home: str, method: str, /, **given: Any) -> Any:
        """What a daemon answers of its own agent."""
        with Client(Home(self.homes[home].home).socket()) as client:
            return client.ask(method, **given)

    def ask_of(self, agent: str, method: str, /, **given: Any) -> Any:
        """What the daemon answers that has an agent."""
        return until(lambda: self._asked(agent, method, given), f"{agent} answers")[0]

    def read(self, agent: str, xpath: str) -> list[dict[str, Any]]:
        """The elements of an agent, which any daemon can tell."""
        with Client(Home(self.homes["attic"].home).socket(), agent=agent) as client:
            return list(client.ask("memory", xpath=xpath))

    def states(self, name: str) -> Counter[tuple[str, str]]:
        """The runs of a home's own agent, by name and state."""
        return Counter((run["name"], run["state"]) for run in self.ask(name, "runs"))

    def _asked(self, agent: str, method: str, given: dict[str, Any]) -> list[Any]:
        for narval in self.homes.values():
            try:
                with Client(Home(narval.home).socket(), agent=agent) as client:
                    return [client.ask(method, **given)]
            except (ElsewhereError, DaemonGoneError):
                continue
        return []


@pytest.fixture
def homes(tmp_path: Path, postgres_url: str) -> Iterator[Homes]:
    homes = Homes(tmp_path, postgres_url)
    for name in NAMES:
        homes.start(name)
    yield homes
    homes.close()


def numbers(rows: list[dict[str, Any]]) -> list[str]:
    return [re.search(' (?:n|of)="([^"]*)"', row["xml"])[1] for row in rows]  # type: ignore[index]


def test_G25_each_of_thirty_pairs_has_all_once_and_in_order_though_both_daemons_are_killed(
    homes: Homes,
) -> None:
    for number in range(PAIRS):
        homes.ask("attic", "add_agent", name=f"s{number}")
        homes.ask("barn", "add_agent", name=f"r{number}")
    for n in range(EACH):
        for number in range(PAIRS):
            order = f"<order n='{n}' for='r{number}'/>".encode()
            homes.ask_of(f"s{number}", "start", name="w.tells", elements=[order])
            if (n, number) in ((1, PAIRS // 2), (2, PAIRS // 2)):
                name = NAMES[n - 1]
                homes.kill(name)
                homes.start(name)

    def arrived(number: int) -> list[str]:
        return numbers(homes.read(f"r{number}", "order"))

    expected = [str(n) for n in range(EACH)]
    for number in range(PAIRS):
        until(lambda: len(arrived(number)) >= EACH, f"r{number} has all")  # noqa: B023
    assert [arrived(number) for number in range(PAIRS)] == [expected] * PAIRS


def test_G34_calls_both_ways_are_answered_once_though_both_daemons_are_killed(homes: Homes) -> None:
    for name in NAMES:
        for number in range(CALLS):
            homes.ask(name, "start", name="w.asks", elements=[f"<order n='{number}'/>".encode()])
        homes.kill(name)
        homes.start(name)
    for name in NAMES:
        until(lambda: homes.states(name)["w.asks", "done"] == CALLS, "all are answered")  # noqa: B023
        states = homes.states(name)
        assert states == {("w.asks", "done"): CALLS, ("w.invoice", "done"): CALLS}
        given = numbers(homes.ask(name, "memory", xpath="invoice[@al:from]"))
        assert sorted(map(int, given)) == list(range(CALLS))


def test_G58_files_dropped_for_an_agent_elsewhere_are_sent_once_though_the_daemon_is_killed(
    homes: Homes,
) -> None:
    homes.ask("barn", "add_agent", name="shop")
    inbox, dropped = homes.homes["attic"].home / "inbox/shop", 60
    inbox.mkdir(parents=True)
    for number in range(dropped):
        scratch = homes.homes["attic"].write("data/scratch", f"<order n='{number}'/>")
        scratch.rename(inbox / f"{number:03}.xml")
        if number == dropped // 2:
            until(lambda: len(list(inbox.iterdir())) < dropped // 2, "some are taken")
            homes.kill("attic")
            homes.start("attic")
    until(lambda: len(homes.read("shop", "order[@al:from='attic']")) >= dropped, "all have come")
    until(lambda: not any(inbox.rglob("*.xml")), "all are removed")
    assert numbers(homes.read("shop", "order")) == [str(number) for number in range(dropped)]
