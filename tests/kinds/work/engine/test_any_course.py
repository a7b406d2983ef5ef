"""P84: whatever people do, an item is as the slow reference says, and keeps what always holds."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from narval.core.definitions.people.directory import Away, Directory, Person
from tests.core.engines.dialogue import Refusal
from tests.examples import examples
from tests.kinds.work.engine.items import Office, work
from tests.kinds.work.engine.reference import DAY, HOUR, Reference, Rules, Somebody

NAMES = ("ann", "ben", "cid", "dan", "eva", "fay")
ROLES = ("approver", "director", "admin")
names = st.sampled_from(NAMES)
roles = st.sampled_from(ROLES[:2])
hours = st.integers(1, 200).map(float)
people = st.lists(
    st.tuples(st.sets(st.sampled_from(ROLES)), st.booleans(), st.sampled_from(("", *NAMES)), st.booleans()),
    min_size=len(NAMES),
    max_size=len(NAMES),
)
rules = st.builds(
    Rules,
    outcomes=st.lists(st.integers(1, 3), min_size=1, max_size=3).map(
        lambda needs: [(f"o{at}", need) for at, need in enumerate(needs)]
    ),
    roles=st.lists(roles, max_size=2, unique=True),
    excludes_requester=st.booleans(),
    delegate=st.sampled_from(("eligible", "anyone", "no")),
    lease=st.none() | hours.map(lambda length: length * HOUR),
    remind_after=st.none() | hours.map(lambda length: length * HOUR),
    remind_every=st.none() | hours.map(lambda length: length * HOUR),
    remind_times=st.none() | st.integers(1, 4),
    escalations=st.lists(st.tuples(hours, roles, st.booleans()), max_size=3).map(
        lambda found: sorted((after * HOUR, role, instead) for after, role, instead in found)
    ),
    deadline=st.none() | hours.map(lambda length: length * HOUR),
    default=st.booleans().map(lambda said: "o0" if said else ""),
    otherwise=st.booleans().map(lambda said: "o0" if said else ""),
)


def written(rules: Rules) -> str:
    """The rules as work."""
    excludes = ' not="requester"' if rules.excludes_requester else ""
    asked = f' roles="{" ".join(rules.roles)}"' if rules.roles else ""
    parts = [f'<for{asked}{excludes} delegate="{rules.delegate}"/>']
    parts += [f'<outcome name="{name}" needs="{needs}"/>' for name, needs in rules.outcomes]
    if not rules.voted:
        parts.append(f'<claim for="{_length(rules.lease) if rules.lease is not None else ""}"/>')
    elif rules.otherwise:
        parts.append(f'<otherwise outcome="{rules.otherwise}"/>')
    if rules.remind_after is not None:
        again = f' every="{_length(rules.remind_every)}"' if rules.remind_every is not None else ""
        again += f' times="{rules.remind_times}"' if again and rules.remind_times is not None else ""
        parts.append(f'<remind after="{_length(rules.remind_after)}"{again}/>')
    for after, role, instead in rules.escalations:
        how = ' instead="yes"' if instead else ""
        parts.append(f'<escalate after="{_length(after)}" roles="{role}"{how}/>')
    if rules.deadline is not None:
        outcome = f' outcome="{rules.default}"' if rules.default else ""
        parts.append(f'<deadline after="{_length(rules.deadline)}"{outcome}/>')
    return work("".join(parts))


def _length(seconds: float) -> str:
    return f"{seconds / HOUR:g}h"


def directory(drawn: list[tuple[set[str], bool, str, bool]]) -> tuple[Directory, dict[str, Somebody]]:
    """The same people for both; a substitute comes later in the list, so there is no circle."""
    persons, known = [], {}
    for name, (held, away, instead, gone) in zip(NAMES, drawn, strict=True):
        if gone:
            continue
        stands_in = instead if instead > name else ""
        known[name] = Somebody(set(held), away, stands_in)
        absence = Away(instead=stands_in) if away else None
        persons.append(Person(name, roles=tuple(sorted(held)), away=absence))
    return Directory(tuple(persons), admin_roles=("admin",)), known


class Course(RuleBasedStateMachine):
    """An item and the reference, told the same."""

    office: Office
    reference: Reference
    item: int

    @initialize(rules=rules, drawn=people, by=names)
    def begin(self, rules: Rules, drawn: Any, by: str) -> None:
        if rules.remind_every is None or rules.remind_after is None:
            rules.remind_times = 1
        rules.excludes_requester = rules.excludes_requester and bool(by)
        persons, known = directory(drawn)
        self.office = Office(written(rules), people=persons)
        self.office.starter = by
        self.item = self.office.offers()
        self.reference = Reference(rules, known, by, self.office.now)

    def does(self, name: str, what: str, to: str = "", outcome: str = "") -> None:
        expected = self.reference.act(name, what, self.office.now, to, outcome)
        given: dict[str, Any] = {"to": [to] if what == "reassign" else to} if to else {}
        if what == "answer":
            given["outcome"] = outcome
        try:
            self.office.act(self.item, name, what, **given)
            found = ""
        except Refusal as refused:
            found = refused.kind
        assert found == expected, f"{name} {what}: expected {expected!r}, got {found!r}"

    @rule(name=names, what=st.sampled_from(("claim", "release", "save", "refuse", "take-back")))
    def acts(self, name: str, what: str) -> None:
        self.does(name, what)

    @rule(name=names, outcome=st.sampled_from(("o0", "o1", "o2")))
    def answers(self, name: str, outcome: str) -> None:
        if len(self.reference.rules.outcomes) > 1 or outcome == "o0":
            self.does(name, "answer", outcome=outcome)

    @rule(name=names, what=st.sampled_from(("delegate", "reassign")), to=names)
    def hands_on(self, name: str, what: str, to: str) -> None:
        self.does(name, what, to=to)

    @rule(seconds=st.integers(0, 100).map(lambda hours: hours * HOUR) | st.just(10 * DAY))
    def time_goes_on(self, seconds: float) -> None:
        self.office.passes(seconds)
        self.reference.time(self.office.now)

    @rule(hours=st.integers(1, 300))
    def nobody_is_at_work(self, hours: int) -> None:
        office = self.office
        office.now += hours * HOUR
        office.up_since = office.now
        for wake in [name for name, (_, timer) in office.wakes.items() if timer.at <= office.now]:
            office.wakes_up(wake)
        self.reference.back_at_work(office.now)

    @rule(drawn=people)
    def people_change(self, drawn: Any) -> None:
        self.office.people, self.reference.people = directory(drawn)

    @rule()
    @precondition(lambda self: self.reference.state in ("offered", "claimed"))
    def is_cancelled(self) -> None:
        if self.office.now > 20 * DAY:
            self.office.cancel(self.item)
            self.reference.state, self.reference.claimant = "withdrawn", ""

    @invariant()
    def both_say_the_same(self) -> None:
        if not hasattr(self, "office"):
            return
        state, reference = self.office.states[self.item], self.reference
        claimant = state.claim.by if state.claim is not None else ""
        found = (state.status, claimant, state.outcome, state.level, state.reminded, sorted(state.refused))
        expected = (
            reference.state,
            reference.claimant,
            reference.outcome,
            reference.level,
            reference.reminders,
            sorted(reference.gone),
        )
        assert found == expected
        assert {vote.by: vote.outcome for vote in state.votes.values()} == {
            voter: outcome for voter, (outcome, _) in reference.votes.items()
        }

    @invariant()
    def what_always_holds(self) -> None:
        if not hasattr(self, "office"):
            return
        state, rules = self.office.states[self.item], self.reference.rules
        assert (state.claim is not None) == (state.status == "claimed")
        for (decision,) in [self.office.named("decision")] if state.status == "done" else []:
            votes = [
                vote for vote in decision.tree().iterchildren("vote") if vote.get("outcome") == state.outcome
            ]
            givers = [vote.get("by") for vote in votes]
            assert len(set(givers)) == len(givers)
            if rules.excludes_requester:
                assert self.reference.asked_by not in str(decision.attributes["by"]).split()
            if rules.voted and decision.attributes["by"]:
                assert len(givers) >= dict(rules.outcomes)[state.outcome]
        if not state.over:
            said = self.office.engines[self.item].waiting_for(self.office.definitions[self.item], state, {})
            assert any(wait.what == "person" and wait.text for wait in said)


Course.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=20, deadline=None)
TestCourse = Course.TestCase
