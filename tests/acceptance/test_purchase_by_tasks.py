"""The purchase that ships, as tasks, at a daemon killed after each line: what was paid is paid back (K47)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.home import Narval, copy_example, make, until
from tests.acceptance.test_purchase import PEOPLE, Killed


@pytest.fixture
def home(tmp_path: Path) -> Narval:
    made = make(tmp_path)
    made.write("etc/people.toml", PEOPLE)
    copy_example(tmp_path, "purchase")
    return made


class Tasks(Killed):
    """Purchases as tasks; the daemon is killed after each line."""

    def puts(self, what: str, amount: int) -> int:
        """Somebody wants something; the case."""
        request = f'<request by="dan"><what>{what}</what><amount>{amount}</amount></request>'
        told = self.line("task", "put", "purchase.enter", "-", "--json", by="dan", given=request.encode())
        (row,) = json.loads(told)["cases"]
        return int(row["case"])

    def answers(self, by: str, work: str, outcome: str) -> None:
        """The one item of that work that is asked of a person is answered, once it is there."""
        asked = lambda: [row for row in self.narval.ask("work", "--as", by) if row["work"] == work]  # noqa: E731
        (row,) = until(asked, f"{work} is asked of {by}")
        self.line("work", "answer", str(row["item"]), outcome, by=by)

    def made(self, name: str) -> list[tuple[int, str]]:
        """The elements of a name, in order, and what each is about."""
        found = json.loads(self.narval("memory", name, "--json").stdout or "[]")
        rows = sorted(found, key=lambda row: row["eid"])
        return [(row["eid"], row["xml"].partition("<what>")[2].partition("</what>")[0]) for row in rows]

    def becomes(self, case: int, state: str) -> None:
        """A case comes to a state."""
        until(lambda: self.narval.ask("show", str(case))["state"] == state, f"case {case} is {state}")


def test_K47_what_was_paid_for_and_does_not_come_is_paid_back_then_the_order_is_called_off(
    home: Narval,
) -> None:
    play = Tasks(home)
    try:
        pen = play.puts("a pen", 3)
        play.answers("ann", "purchase.receive", "commit")
        play.becomes(pen, "committed")

        sofa = play.puts("a sofa", 700)
        play.answers("ben", "purchase.approve", "abort")
        play.becomes(sofa, "aborted")
        assert [what for _, what in play.made("order")] == ["a pen"], "nothing was done, nothing is undone"

        car = play.puts("a car", 20_000)
        play.answers("ann", "purchase.approve", "forward")
        play.answers("cleo", "purchase.agree", "forward")
        play.answers("ben", "purchase.receive", "abort")
        play.becomes(car, "aborted")
        (paid_back,) = play.made("refund")
        (called_off,) = play.made("called-off")
        assert (paid_back[1], called_off[1]) == ("a car", "a car")
        assert paid_back[0] < called_off[0], "in reverse order"
        trail = [(step["type"], step["state"]) for step in home.ask("show", str(car))["trail"]]
        assert trail == [
            ("purchase.enter", "none"),
            ("purchase.approve", "none"),
            ("purchase.agree", "none"),
            ("purchase.order", "compensated"),
            ("purchase.pay", "compensated"),
        ]
    finally:
        play.end()


def test_KA20_a_payment_that_cannot_be_paid_back_blocks_the_case_until_somebody_has_seen_to_it(
    home: Narval,
) -> None:
    file = home.home / "recipes" / "examples" / "purchase.payment.xml"
    written = file.read_text()
    file.write_text(written.replace('<copy-as name="refund"/>', '<copy-as name="not a name"/>'))
    play = Tasks(home)
    try:
        desk = play.puts("a desk", 50)
        play.answers("ann", "purchase.receive", "abort")
        play.becomes(desk, "blocked")
        why = home("why", str(desk)).stdout.decode()
        assert "purchase.pay_back, which compensates purchase.pay, failed" in why
        assert f"narval task retry {desk}" in why
        shown = home("show", str(desk)).stdout.decode()
        assert "aborting" in shown, "where its object is (K67)"
        assert "failed     purchase.pay_back" in shown, "what became of the steps of its trail"
        assert play.made("called-off") == [], "what comes after it waits"

        file.write_text(written)
        play.line("reload", by="cleo")
        play.line("task", "retry", str(desk), by="cleo")
        play.becomes(desk, "aborted")
        assert len(play.made("refund")) == len(play.made("called-off")) == 1
    finally:
        play.end()
