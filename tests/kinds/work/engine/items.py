"""Items in dialogues: people who act on them, and a directory of a few."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from narval.core.definitions.people.directory import Directory, Person
from narval.core.engines.events import PersonsAct
from tests.core.engines.dialogue import Dialogue, Refusal

DAY = 86400.0
HOUR = 3600.0

PEOPLE = (
    Person("ann", roles=("approver",)),
    Person("ben", roles=("approver",)),
    Person("cid", roles=("approver",)),
    Person("dan", roles=("director",)),
    Person("eva"),
    Person("root", roles=("admin",)),
)


def directory(*people: Person) -> Directory:
    """The directory of these people, of whom those with the role `admin` are administrators."""
    return Directory(people or PEOPLE, admin_roles=("admin",))


def work(inside: str = "", title: str = "Well?", name: str = "g.w") -> str:
    """Work as it is written."""
    group, _, short = name.partition(".")
    return f'<work group="{group}" name="{short}"><title>{title}</title>{inside}</work>'


class Office(Dialogue):
    """A dialogue about items that people act on."""

    def __init__(self, *texts: Any, people: Directory | None = None) -> None:
        super().__init__(*texts)
        self.answered_at = self._answered_at
        self.people = people if people is not None else directory()

    def _answered_at(self, run: int, step: str) -> Iterator[str]:
        for other, caller in self.callers.items():
            is_asked = caller is not None and caller.step == step and other != run
            if is_asked and self._top(other) == self._top(run):
                yield from self.states[other].answerers

    def _top(self, run: int) -> int:
        caller = self.callers.get(run)
        return run if caller is None else self._top(caller.run)

    def offers(self, name: str = "g.w", *elements: int) -> int:
        """An item is asked for; its number."""
        return self.start(name, elements, kind="work")

    def act(
        self, item: int, person: str, name: str, way: str = "terminal", token: str = "", **given: Any
    ) -> Any:
        """A person acts; the answer. Raises Refusal."""
        self.said_by = {"by": person, "act": PersonsAct(way, "7", token)}
        try:
            return self.says(item, name.replace("_", "-"), **given)
        finally:
            self.said_by = {}

    def refusal(self, item: int, person: str, name: str, **given: Any) -> str:
        """The kind of the problem that an act gets; "" if it is done."""
        try:
            self.act(item, person, name, **given)
        except Refusal as refused:
            return refused.kind
        return ""

    def why_not(self, item: int, person: str, name: str, **given: Any) -> str:
        """The sentence that an act gets that is refused."""
        try:
            self.act(item, person, name, **given)
        except Refusal as refused:
            return str(refused)
        raise AssertionError(f"{person} may {name}")

    def told(self, kind: str) -> Any:
        """The one change of a kind that followed from the last thing said."""
        (found,) = (change for change in self.decided if type(change).__name__ == kind)
        return found
