"""The purchase that ships, at a real daemon killed after each line (P87), as a recipe and as a process."""

from __future__ import annotations

from pathlib import Path

import pytest

import narval as library
from tests.acceptance.home import Narval, copy_example, make, until
from tests.forked_commands import Command

PEOPLE = """
[people.ann]
roles = ["approver"]
[people.ben]
roles = ["approver"]
[people.cleo]
roles = ["director"]
[people.dan]
roles = ["approver"]
[roles.director]
above = ["approver"]
[admin]
roles = ["director"]
"""
FORMS = ["purchase", "purchase-by-process"]


@pytest.fixture(params=FORMS)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Narval:
    made = make(tmp_path, memory=f'<memory><start-plan recipe="examples.{request.param}"/></memory>')
    made.write("etc/people.toml", PEOPLE)
    copy_example(tmp_path, "purchase")
    return made


class Killed:
    """A home whose daemon is killed after each line."""

    def __init__(self, narval: Narval) -> None:
        self.narval, self.daemon = narval, self._begun(narval)

    @staticmethod
    def _begun(narval: Narval) -> Command:
        daemon = narval.daemon()
        assert b"is ready" in daemon.stdout.readline()
        return daemon

    def line(self, *words: str, by: str, given: bytes = b"") -> str:
        """What a command of a person says; then the daemon is killed, and begun anew."""
        done = self.narval(*words, "--as", by, given=given)
        self.end()
        self.daemon = self._begun(self.narval)
        return (done.stdout or done.stderr).decode().strip()

    def wants(self, what: str, amount: int) -> None:
        self.line(
            "add",
            "-",
            by="dan",
            given=f'<request by="dan"><what>{what}</what><amount>{amount}</amount></request>'.encode(),
        )

    def item(self, by: str) -> str:
        """The one item that is asked of a person."""
        (row,) = until(lambda: self.narval.ask("work", "--as", by), f"something is asked of {by}")
        return str(row["item"])

    def orders(self, count: int) -> list[str]:
        """The texts of all orders, which must come to be so many."""
        count_of = lambda: len(self.narval.ask("memory", "order")) == count  # noqa: E731
        until(count_of, f"{count} orders")
        return [row["xml"].partition("<what>")[2].partition("</what>")[0] for row in self._orders()]

    def _orders(self) -> list[dict[str, str]]:
        return sorted(self.narval.ask("memory", "order"), key=lambda row: row["eid"])

    def end(self) -> None:
        self.daemon.kill()
        self.daemon.communicate()


def test_P87_the_purchase_is_played_by_several_people_and_killed_after_each_line(home: Narval) -> None:
    play = Killed(home)
    try:
        play.wants("a pen", 3)
        assert play.orders(1) == ["a pen"]
        assert home.ask("work", "--all", "--as", "cleo") == [], "under 100 nobody is asked"

        play.wants("a desk", 600)
        desk = play.item("ann")
        assert "the asker may not answer" in play.line("work", "answer", desk, "approve", by="dan")
        assert play.line("work", "claim", desk, by="ann") == f"item {desk} is claimed"
        refused = play.line("work", "claim", desk, by="ben")
        assert refused.startswith("narval: claimed by ann since ")
        play.line("work", "answer", desk, "approve", by="ann")
        assert play.orders(2) == ["a pen", "a desk"]

        play.wants("a car", 20_000)
        car = play.item("ben")
        play.line("work", "answer", car, "approve", by="ann")
        assert "Why" in play.line("work", "answer", car, "reject", by="ben"), "a reason is asked for"
        play.line("work", "answer", car, "reject", "--set", "comment=take the train", by="ben")

        back = play.item("dan")
        assert "take the train" in play.line("work", "show", back, by="dan"), "it comes back with its history"
        changed = ("--set", "what=a boat", "--set", "amount=5000")
        play.line("work", "answer", back, "again", *changed, by="dan")
        boat = play.item("ann")
        assert boat not in (car, back)
        play.line("work", "answer", boat, "approve", by="ann")
        assert play.line("work", "answer", boat, "approve", by="cleo") == f"item {boat} is done: approve"
        assert play.orders(3) == ["a pen", "a desk", "a boat"]

        log = home.ask("work", "log", "--as", "cleo")
        told = [(row["item"], row["did"], row["by"]) for row in log if row["did"] != "Offered"]
        assert told == [
            (int(desk), "TurnedAway", "dan"),
            (int(desk), "Claimed", "ann"),
            (int(desk), "TurnedAway", "ben"),
            (int(desk), "ItemAnswered", "ann"),
            (int(car), "Voted", "ann"),
            (int(car), "TurnedAway", "ben"),
            (int(car), "Voted", "ben"),
            (int(car), "ItemAnswered", "ben"),
            (int(back), "ItemAnswered", "dan"),
            (int(boat), "Voted", "ann"),
            (int(boat), "Voted", "cleo"),
            (int(boat), "ItemAnswered", "ann cleo"),
        ]
    finally:
        play.end()


def test_P87_reminded_escalated_and_answered_by_default_in_a_home_opened_anew_each_day(home: Narval) -> None:
    clock = library.SimulatedClock(1_790_000_000.0)
    for day in range(7):
        with library.open(home.home, clock=clock, by="dan") as agent:
            agent.until_idle()
            if not day:
                agent.add("<request by='dan'><what>a sofa</what><amount>2000</amount></request>")
            agent.elapse(days=1)
            agent.until_idle()
    with library.open(home.home, clock=clock, by="cleo") as agent:
        agent.until_idle()
        (item,) = agent.worklist(state="done", name="examples.approve-twice")
        told = [row["did"] for row in agent.work_log(item["item"])]
        assert told == ["Offered", "Reminded", "Reminded", "Reminded", "Escalated", "ItemAnswered"]
        assert [row["item"] for row in agent.worklist(person="dan")], "it is back with whoever wanted it"
