"""The examples that ship, in a home whose daemon is restarted at each moment of their scenarios (N35).

Simulations play these scenarios elsewhere. Here their elements come to a home on disk, where the daemon is up
until the next moment, or down until then: what was missed is made up for at its start. Mails are noted, or go
to a Maildir where they are sent before that can be. In the end there must be as many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import narval
from narval.core.source.text import Source
from narval.files.new_home import create_home
from narval.trials.simulate.parser import read_scenario
from narval.trials.simulate.scenario import Scenario, When
from tests.acceptance.home import copy_example
from tests.places import ROOT

SCENARIOS = [
    ROOT / "scenarios" / "examples" / f"{name}.xml"
    for name in (
        *("again", "approval", "backup", "briefing", "digest", "invoice"),
        *("logins", "meeting", "month", "reminder", "vacation"),
    )
]
"""Those in which no people, models or tasks answer. The others that ship are played by simulations alone: the
engines that a restart concerns are the same."""
SENDING = ("mail.write", "mail.send")


class Played:
    """A scenario in a home that is opened anew at each moment, with how many mails were sent in it."""

    def __init__(self, home: Path, scenario: Scenario, *, up: bool) -> None:
        assert scenario.at is not None
        self.home, self.scenario, self.up = home, scenario, up
        self.start = scenario.at.moment(0.0, None)
        self.clock = narval.SimulatedClock(self.start)
        self.noted = Counter[str]()
        self.sent = 0

    def play(self) -> None:
        for moment in sorted({*self.moments()}):
            if not self.up:
                self.clock.set(moment)
            with narval.open(self.home, clock=self.clock) as agent:
                agent.stub("mail.write", lambda draft, **_: self.note(draft))
                agent.stub("mail.send", lambda mail, **_: self.note(mail))
                agent.elapse(seconds=moment - self.clock.now())
                self.happen(agent, moment)
                agent.until_idle()
                self.sent = len(agent.memory("sent"))

    def note(self, mail: narval.Element) -> str:
        """The answer to a mail, with an id as the scenario has it: of the address, and the how manyth."""
        to = mail.attributes["to"]
        self.noted[to] += 1
        return f'<sent message-id="{to.partition("@")[0]}-{self.noted[to]}@example.org"/>'

    def moments(self) -> Iterator[float]:
        scenario = self.scenario
        once = (*scenario.starts, *scenario.outdatings, *scenario.signals)
        whens: list[When | None] = [scenario.until, *(part.at for part in once)]
        whens += [expectation.at for expectation in scenario.expectations]
        yield from (self.moment(when) for when in whens if when is not None)
        for arrival in scenario.arrivals:
            yield from self.arrivals(arrival.at, arrival.every, arrival.times)

    def moment(self, when: When) -> float:
        return when.moment(self.start, None)

    def arrivals(self, at: When, every: float | None, times: int | None) -> list[float]:
        return [self.moment(at) + number * (every or 0.0) for number in range(times or 1)]

    def happen(self, agent: narval.Agent, now: float) -> None:
        """Do what the scenario has at a moment."""
        for start in self.scenario.starts:
            if self.moment(start.at) == now:
                agent.start(start.recipe)
        for arrival in self.scenario.arrivals:
            if now in self.arrivals(arrival.at, arrival.every, arrival.times):
                if arrival.replaces is None:
                    agent.add_all(arrival.elements)
                else:
                    old = agent.memory(arrival.replaces.text, current=True)[-1].eid
                    agent.add(arrival.elements[0], replace=old)
        for outdating in self.scenario.outdatings:
            if self.moment(outdating.at) == now:
                found = agent.memory(outdating.condition.text, current=True)
                agent.outdate([element.eid for element in found], outdating.reason)
        for signal in self.scenario.signals:
            if self.moment(signal.at) == now:
                assert signal.condition is not None
                for run in agent.runs("active"):
                    if agent.memory(signal.condition.text, context=run["eid"]):
                        agent.signal(run["eid"], signal.name)


NOT_JUDGED = {"backup": 2}
"""The mails of an example that does not judge a night in which no daemon was up."""


@pytest.mark.parametrize("up", [True, False], ids=["up", "down"])
@pytest.mark.parametrize("file", SCENARIOS, ids=[path.stem for path in SCENARIOS])
def test_N35_an_example_sends_the_same_when_its_daemon_is_restarted_at_each_moment(
    tmp_path: Path, file: Path, up: bool
) -> None:
    home = create_home(tmp_path / "home", bare=True).path
    copy_example(home, file.stem)
    scenario = read_scenario(Source(str(file), file.read_bytes()))
    at_the_end = [wish for wish in scenario.expectations if wish.at is None]
    totals = ["element sent", *(f"call {action}" for action in SENDING)]
    (expected,) = {wish.least for wish in at_the_end if wish.text in totals}
    played = Played(home, scenario, up=up)
    played.play()
    assert played.sent == (expected if up else NOT_JUDGED.get(file.stem, expected))
