"""Any automaton in any course of events: the rules of all engines hold after each (`Dialogue`)."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from narval.core.definitions.parsing import parse
from narval.core.source.text import Source
from tests.kinds.automaton.engine.programs import Programs, signal

NAMES = ("start", "a", "b", "end")
HOWS = ('label="0"', 'label="1"', 'label="*"', 'label="timeout"', 'signal="stop"', 'signal="go"')
WITHIN = (
    '<command command="x"/>',
    '<command command="x" retries="1" backoff="5"/><command command="y"/>',
    '<command command="x"/><wait signal="go"/>',
    '<command command="x"/><after minutes="0" seconds="0"/>',
)
OF_STATES = ("", 'retries="1"', 'max-visits="3"', 'creates="x"')
OF_ROOT = ("", 'timeout="40"', 'max-parallel="1"', 'restart="yes"')
EVENTS = ("0", "1", "timeout", "SIGTERM", "gone", "stop", "go", "time", "cancel")

arrows = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(HOWS), st.sampled_from(NAMES)), max_size=8, unique=True
)


def happens(said: Programs, event: str, which: int) -> None:
    """One thing happens: to a program that runs or is being ended, or to the run."""
    state = said.states[said.run]
    calls = list(state.dying if event == "gone" else state.calls)
    if event in ("stop", "go"):
        signal(said, event)
    elif event == "time":
        said.passes(25)
    elif event == "cancel":
        said.cancel(said.run)
    elif calls:
        _, call = said.calls[calls[which % len(calls)]]
        if event == "gone":
            said.answer(call, abandoned=True)
        else:
            key = {"timeout": "timeout", "SIGTERM": "signal"}.get(event, "status")
            said.answer(call, value={key: int(event) if event.isdigit() else event, "output": ""})


@given(
    arrows,
    st.lists(st.tuples(st.sampled_from(WITHIN), st.sampled_from(OF_STATES)), min_size=4, max_size=4),
    st.sampled_from(OF_ROOT),
    st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 3)), max_size=25),
)
def test_whatever_happens_the_rules_of_engines_hold(
    ways: list[tuple[str, str, str]],
    states: list[tuple[str, str]],
    of_root: str,
    events: list[tuple[str, int]],
) -> None:
    used = dict.fromkeys(["start", *(name for before, _, after in ways for name in (before, after))])
    inside = "".join(
        f'<state name="{name}" {attributes}>{within}</state>'
        for name, (within, attributes) in zip(used, states, strict=False)
    )
    inside += "".join(f'<transition from="{one}" {how} to="{other}"/>' for one, how, other in ways)
    text = f'<automaton group="g" name="a" {of_root}>{inside}</automaton>'
    assume(not parse(Source("test.xml", text.encode())).faults)
    said = Programs(inside, attributes=of_root)
    for event, which in events:
        if said.told in ("done", "failed", "cancelled"):
            break
        happens(said, event, which)
