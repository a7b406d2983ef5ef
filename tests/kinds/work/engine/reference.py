"""A slow reference of a work item: the rules of P17 to P34 written once more, as plain loops over people.

It knows nothing of the engine. It is told the same acts and moments, and says what becomes of each.
"""

from __future__ import annotations

from dataclasses import dataclass, field

HOUR = 3600.0
DAY = 24 * HOUR


@dataclass
class Somebody:
    roles: set[str] = field(default_factory=set)
    away: bool = False
    instead: str = ""


@dataclass
class Rules:
    """A definition, as the tests draw it."""

    outcomes: list[tuple[str, int]]
    roles: list[str]
    excludes_requester: bool = False
    delegate: str = "eligible"
    lease: float | None = DAY
    remind_after: float | None = None
    remind_every: float | None = None
    remind_times: int | None = 1
    escalations: list[tuple[float, str, bool]] = field(default_factory=list)
    deadline: float | None = None
    default: str = ""
    otherwise: str = ""

    @property
    def voted(self) -> bool:
        return any(needs > 1 for _, needs in self.outcomes)


class Reference:
    """The item, and the world around it."""

    def __init__(self, rules: Rules, people: dict[str, Somebody], asked_by: str, now: float) -> None:
        self.rules, self.people, self.asked_by = rules, people, asked_by
        self.began = now
        self.state = "offered"
        self.claimant = ""
        self.lease_end: float | None = None
        self.groups: list[tuple[str, str]] = [("role", role) for role in rules.roles] or [("anybody", "")]
        self.level = 0
        self.chain: list[tuple[str, str, list[tuple[str, str]], int, float | None]] = []
        self.gone: set[str] = set()
        self.votes: dict[str, tuple[str, str]] = {}
        self.reminders = 0
        self.last_reminder = 0.0
        self.outcome = ""
        self.error = ""
        self.put_off: float | None = None

    # --- who ------------------------------------------------------------------------------------------

    def excluded(self, name: str) -> bool:
        return self.rules.excludes_requester and name == self.asked_by

    def is_in(self, name: str, group: tuple[str, str]) -> bool:
        sort, value = group
        if sort == "anybody" or (sort == "name" and value == name):
            return True
        return sort == "role" and value in self.people[name].roles

    def stands_for(self, name: str) -> list[str]:
        """Those for whom a person acts: who is away and named them, and so on."""
        found = [name]
        for one in found:
            for other, somebody in self.people.items():
                if somebody.away and somebody.instead == one and other not in found:
                    found.append(other)
        return found[1:]

    def right(
        self, name: str, *, mine: bool = True, groups: list[tuple[str, str]] | None = None
    ) -> str | None:
        """For whom a person may act: themselves, another, or None for nobody."""
        spent = set()
        for voter, (_, sake) in self.votes.items():
            if voter != name or not mine:
                spent |= {voter, sake}
        out = self.gone | spent | {one for one in self.people if self.excluded(one)}
        if name not in self.people or name in out:
            return None
        asked = self.groups if groups is None else groups
        if any(self.is_in(name, group) for group in asked):
            return name
        for group in asked:
            for absent in self.stands_for(name):
                if absent not in out and self.is_in(absent, group):
                    return absent
        return None

    def could(self) -> dict[str, str]:
        rights = {name: self.right(name, mine=False) for name in self.people}
        return {name: sake for name, sake in rights.items() if sake is not None}

    # --- acts -----------------------------------------------------------------------------------------

    def act(self, name: str, what: str, now: float, to: str = "", outcome: str = "") -> str:
        """What an act comes to: "" if it is done, else the kind of the problem."""
        if self.state not in ("offered", "claimed"):
            return "over"
        if self.claimant and self.right(self.claimant) is None:
            self._free()
        admin = name in self.people and "admin" in self.people[name].roles
        if what == "reassign":
            return self._reassign(admin, to)
        if self.rules.voted:
            if what in ("claim", "release", "delegate"):
                return "not-exclusive"
        elif what == "release":
            if self.claimant and (self.claimant == name or admin):
                self._free()
                return ""
            return "claimed" if self.claimant else "not-claimed"
        elif self.claimant and self.claimant != name:
            return "claimed"
        elif what == "take-back":
            return "not-claimed"
        return getattr(self, f"_{what.replace('-', '_')}")(name, now, to, outcome)

    def _may(self, name: str) -> str:
        if self.right(name) is not None:
            return ""
        return "excluded" if self.excluded(name) else "not-eligible"

    def _claim(self, name: str, now: float, to: str = "", outcome: str = "") -> str:
        if problem := self._may(name):
            return problem
        self.state, self.claimant = "claimed", name
        self.lease_end = None if self.rules.lease is None else now + self.rules.lease
        return ""

    def _save(self, name: str, now: float, to: str, outcome: str) -> str:
        return self._claim(name, now) if self.claimant else self._may(name)

    def _answer(self, name: str, now: float, to: str, outcome: str) -> str:
        if problem := self._may(name):
            return problem
        if outcome not in [known for known, _ in self.rules.outcomes]:
            return "no-outcome"
        if not self.rules.voted:
            self._end("done", outcome)
            return ""
        self.votes[name] = (outcome, self.right(name) or "")
        self._count()
        return ""

    def _take_back(self, name: str, now: float, to: str, outcome: str) -> str:
        if name not in self.votes:
            return "not-claimed"
        del self.votes[name]
        self._count()
        return ""

    def _delegate(self, name: str, now: float, to: str, outcome: str) -> str:
        if problem := self._may(name):
            return problem
        if self.rules.delegate == "no" or to not in self.people:
            return "not-eligible"
        if to == name or to in [by for by, *_ in self.chain] or len(self.chain) >= 3:
            return "not-eligible"
        if self.excluded(to):
            return "excluded"
        if to in self.gone:
            return "not-eligible"
        wide = self._since(*self.chain[0][2:4]) if self.chain else self.groups
        if self.rules.delegate == "eligible" and self.right(to, groups=wide) is None:
            return "not-eligible"
        self._claim(name, now)
        self._free()
        until = None if self.rules.lease is None else now + self.rules.lease
        self.chain.append((name, to, self.groups, self.level, until))
        self.groups = [("name", to)]
        return ""

    def _refuse(self, name: str, now: float, to: str, outcome: str) -> str:
        votes, self.votes = self.votes, {}
        asks, self.rules.excludes_requester = self.rules.excludes_requester, False
        sake = self.right(name)
        self.votes, self.rules.excludes_requester = votes, asks
        if sake is None:
            return "excluded" if self.excluded(name) else "not-eligible"
        self.votes.pop(name, None)
        self.gone.add(name)
        self._free()
        if self.chain and self.chain[-1][1] == name:
            self._come_back(now)
        if self.rules.voted:
            self._count()
        elif not self.claimant:
            self._nobody_left()
        return ""

    def _reassign(self, admin: bool, to: str) -> str:
        if not admin:
            return "not-eligible"
        if to not in self.people:
            return "not-eligible"
        if self.excluded(to):
            return "excluded"
        if to in self.gone:
            return "not-eligible"
        self._free()
        self.groups, self.chain = [("name", to)], []
        return ""

    # --- what follows ---------------------------------------------------------------------------------

    def _free(self) -> None:
        self.state, self.claimant, self.lease_end = "offered", "", None

    def _end(self, state: str, outcome: str = "", error: str = "") -> None:
        self.state, self.outcome, self.error, self.claimant = state, outcome, error, ""

    def _come_back(self, now: float) -> None:
        by, _, groups, level, _ = self.chain.pop()
        self._free()
        self.groups = self._since(groups, level)
        if self.right(by) is not None:
            self._claim(by, now)

    def _since(self, groups: list[tuple[str, str]], level: int) -> list[tuple[str, str]]:
        """Groups as they were at a level, with what escalations did since."""
        for _, role, instead in self.rules.escalations[level : self.level]:
            groups = [("role", role)] if instead else [*groups, ("role", role)]
        return groups

    def _escalate(self) -> None:
        _, role, instead = self.rules.escalations[self.level]
        self.level += 1
        if instead and self.claimant:
            self._free()
        self.groups = [("role", role)] if instead else [*self.groups, ("role", role)]

    def _nobody_left(self) -> None:
        while not self.could():
            if self.level == len(self.rules.escalations):
                self._end("refused", error="refused")
                return
            self._escalate()

    def _count(self) -> None:
        while True:
            has = {name: 0 for name, _ in self.rules.outcomes}
            for voter, (outcome, _) in self.votes.items():
                has[outcome] += not self.excluded(voter)
            for outcome, needs in self.rules.outcomes:
                if has[outcome] >= needs:
                    self._end("done", outcome)
                    return
            left = len(set(self.could().values()))
            if any(has[outcome] + left >= needs for outcome, needs in self.rules.outcomes):
                return
            if self.level < len(self.rules.escalations):
                self._escalate()
            elif not self.votes and not left:
                self._nobody_left()
                return
            elif self.rules.otherwise:
                self._end("done", self.rules.otherwise)
                return
            else:
                self._end("failed", error="no-quorum")
                return

    # --- time -----------------------------------------------------------------------------------------

    def moments(self) -> list[tuple[float, int, str]]:
        """All moments to come, earliest first, and of one moment in the order of P76."""
        if self.state not in ("offered", "claimed"):
            return []
        rules, found = self.rules, []
        lease = self.lease_end if self.claimant else self.chain[-1][4] if self.chain else None
        if lease is not None:
            found.append((lease, 0, "lease"))
        if rules.remind_after is not None and (
            rules.remind_times is None or self.reminders < rules.remind_times
        ):
            if not self.reminders:
                found.append((self.began + rules.remind_after, 1, "reminder"))
            elif rules.remind_every is not None:
                found.append((self.last_reminder + rules.remind_every, 1, "reminder"))
        if self.level < len(rules.escalations):
            found.append((self.began + rules.escalations[self.level][0], 2, "escalation"))
        if rules.deadline is not None:
            due = self.began + rules.deadline
            found.append((due if self.put_off is None else self.put_off, 3, "deadline"))
        return sorted(found)

    def time(self, now: float) -> None:
        """Let all that is due happen, a moment at a time, as when somebody is at work."""
        while (moments := self.moments()) and moments[0][0] <= now:
            at, _, what = moments[0]
            self._happens(what, at, at)

    def back_at_work(self, now: float) -> None:
        """Let all that was missed happen once, in the order of P76; a missed deadline comes later."""
        rules = self.rules
        if rules.deadline is not None:
            due = self.began + rules.deadline if self.put_off is None else self.put_off
            if due < now:
                self.put_off = now + 300
        for what in ("lease", "reminder", "escalation", "deadline"):
            while due := [at for at, _, sort in self.moments() if sort == what and at <= now]:
                self._happens(what, due[0], now)

    def _happens(self, what: str, due: float, now: float) -> None:
        if what == "lease":
            if self.claimant:
                self._free()
            else:
                self._come_back(now)
        elif what == "reminder":
            self.reminders, self.last_reminder = self.reminders + 1, due
        elif what == "escalation":
            self._escalate()
        elif self.rules.default:
            self._end("done", self.rules.default)
        else:
            self._end("expired", error="expired")
