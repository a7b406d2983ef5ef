"""What exploration calls impossible never happens: random recipes are explored, and then run."""

from __future__ import annotations

import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import narval
from narval.agent.turn import Turn
from narval.core.definitions.library import Library
from narval.core.engines.events import Event, Failure, Signalled
from narval.trials.explore.search import Words, explore
from tests.agent.test_recovery import MODULE, cookbooks, mails, starts
from tests.core.engines.dialogue import Dialogue
from tests.kinds.recipe.engine.test_property import ACTIONS, happens, plans

EXAMPLES = int(os.environ.get("NARVAL_EXAMPLES", "10"))
MOST = 60 if EXAMPLES < 100 else 300
"""Recipes of more states are left aside, fewer in `make soak`: small ones have what large ones have."""

MOST_CHOOSING = 2
"""Of the words that choose among elements, so many a recipe: with more, walks have mostly to be cut short."""

CHOOSING = re.compile(r' as="| absent="yes"| list="yes"|[$]each')


class Possible:
    """All that exploration deems possible of the plans of a recipe."""

    def __init__(self, name: str, library: Library) -> None:
        definition = library.get("recipe", name)
        assert definition is not None
        explored = explore(definition, library, most=MOST)
        assume(explored.complete)
        self.underway = {frozenset(place.words.items()) for place in explored.nodes}
        self.ends = {(phase, _own(kind)) for phase, kind, _ in explored.ends}
        self.seen = {(part, word) for part, word, _ in explored.seen}

    def check(self, words: Words, *, over: bool) -> None:
        """The parts of a run are as some run may have them."""
        assert [each for each in words.items() if each not in self.seen] == []
        if not over:
            assert frozenset(words.items()) in self.underway, words


def _own(kind: str) -> str:
    return kind if kind in ENGINES_OWN else ""


ENGINES_OWN = frozenset(
    {"stuck", "input-missing", "bad-output", "foreach-misfit", "no-date", "unknown-target"}
)
"""Types of errors that the engine makes itself: those of calls are any."""


class Watched(Dialogue):
    """A dialogue in which each step a plan takes is looked up among those deemed possible."""

    possible: Possible

    def _check(self, run: int, changes: list[Any]) -> None:
        super()._check(run, changes)
        words = {("steps", each): word for each, word in self.steps(run).items()}
        words |= {("transitions", each): word for each, word in self.transitions(run).items()}
        self.possible.check(words, over=run in self.finished)
        if run in self.finished:
            finish = self.finished[run]
            error = self.memory.element(finish.error) if finish.error is not None else None
            kind = error.attributes.get("type", "") if error is not None else ""
            assert (finish.phase, _own(kind)) in self.possible.ends


@st.composite
def timed_plans(draw: st.DrawFn) -> str:
    """A recipe with calls that are tried again or have a time limit, and transitions that wait for dates, and
    for elements to last, or for one that goes with another, or take all that fit,
    or nothing.
    """
    text = draw(plans())

    def timed(written: re.Match[str]) -> str:
        """A step with more to it."""
        extras = ("", "", "", ' retries="1"', ' timeout="5"', ' retries="1" backoff="2" timeout="5"')
        return f"<step {draw(st.sampled_from(extras))} {written[1]}"

    def dated(written: re.Match[str]) -> str:
        """A transition that waits for a date as well."""
        date = draw(st.sampled_from(["", "", "", "", "", *DATES]))
        return f"{date}</transition>"

    def lasting(written: re.Match[str]) -> str:
        """A transition whose conditions must last, or of which the second depends on the first."""
        text = written[0]
        if text.count("<condition") == 2 and draw(st.booleans()):
            first, _, second = text.rpartition("</match>")
            text = f"{first}[@n = $it/@n]</match>{second}"
            return text.replace("<condition", '<condition as="it"', 1)
        if draw(st.integers(0, 4)) == 0:
            first, _, second = text.rpartition('use="no"')
            text = f'{first}absent="yes"{second}' if first else text
        if "on-error" in text or "absent" in text:
            return text
        duration = draw(st.sampled_from(["", "", ' for="2s"', ' for="1m"', ' list="yes"']))
        return text.replace("<condition", f"<condition{duration}")

    text = re.sub("<transition .*?</transition>", lasting, re.sub("<step (.)", timed, text))
    return re.sub("</transition>", dated, text)


OF_AN_ELEMENT = "concat('1970-01-0', $s0/@n, 'T00:05')"
DATES = (
    '<time seconds="0"/>',
    '<time seconds="0" years="2023"/>',
    '<time after="2s"/>',
    '<time after="1d" weekdays="0-4" missed="skip"/>',
    f'<time at="{OF_AN_ELEMENT}" before="1m"/>',
    f'<time at="{OF_AN_ELEMENT}" after="1d" missed="skip"/>',
)


def goes_on(said: Watched, runs: list[int], data: st.DataObject) -> None:
    """One thing more: what may happen to any plan, an error, a moment, or something that is said."""
    what = data.draw(st.integers(0, 9))
    calls = [call for _, call in said.calls.values()]
    if calls and what < 3:
        kind = data.draw(st.sampled_from(["timeout", "ValueError"]))
        problem = Failure(kind, "it broke", final=data.draw(st.booleans()))
        said.answer(data.draw(st.sampled_from(calls)), problem=problem)
    elif said.wakes and what < 6:
        said.until_woken()
    elif what == 6:
        said.passes(data.draw(st.sampled_from([1.0, 70.0, 4e7])))
    elif what == 7 and data.draw(st.booleans()):
        said.now += data.draw(st.sampled_from([1.0, 70.0, 4e7]))
        said.up_since = said.now  # no daemon was there meanwhile
        said.passes(0.0)
    elif what == 8 and said.named("red"):
        said.outdated(data.draw(st.sampled_from(said.named("red"))).eid)
    elif what == 7:
        run = data.draw(st.sampled_from([run for run in runs if run not in said.finished] or runs))
        said.tell(run, Signalled(said._next(), said.now, f"signal.{what}", "green", (), {"n": 3}))
    else:
        happens(said, runs, data)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(timed_plans(), st.data())
def test_N22_a_plan_never_comes_to_where_exploration_says_that_it_cannot(
    text: str, data: st.DataObject
) -> None:
    assume(len(CHOOSING.findall(text)) <= MOST_CHOOSING)
    said = Watched(text, *(each for each in ACTIONS.values() if each is not None))
    said.possible = Possible("g.r", said.library)
    said.now = 1.7e9
    runs = [said.start("g.r")]
    for _ in range(40):
        goes_on(said, runs, data)
        if all(run in said.finished for run in runs):
            break


@settings(max_examples=EXAMPLES // 3, deadline=None, suppress_health_check=list(HealthCheck))
@given(cookbooks(), st.lists(st.one_of(starts, mails, st.just("<gift/>")), min_size=1, max_size=8))
def test_N19_runs_of_a_real_home_that_call_each_other_never_do_either(
    cookbook: str, given: list[str]
) -> None:
    with TemporaryDirectory() as folder, narval.open() as home, pytest.MonkeyPatch.context() as patch:
        module = Path(folder, "w.py")
        module.write_text(MODULE)
        home.load(module)
        home.load(cookbook)
        library = home.daemon.agent.library
        possible = {name: Possible(name, library) for name in library.of("recipe")}
        tell = Turn.tell

        def checked(turn: Turn, eid: int, event: Event, *, is_labelled: bool = False) -> bool:
            counts, run = tell(turn, eid, event, is_labelled=is_labelled), turn.agent.runs[eid]
            parts = run.engine.parts(run.definition, run.state).items()
            words = {(name, part["id"]): part["state"] for name, listed in parts for part in listed}
            possible[run.name].check(words, over=not run.active)
            return counts

        patch.setattr(Turn, "tell", checked)
        home.add("<counter value='0'/>")
        for number, text in enumerate(given):
            home.add(text.replace("/>", f" n='{number}'/>", 1))
            home.until_idle()
