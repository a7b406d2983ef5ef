"""Operations on work: who sees what, in which order, and what the engine refuses (P20, P35, P44, P82)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.agent import waiting
from narval.ask.asker import NOBODY, Asker
from narval.core.errors import RequestError, WorkRefusedError
from narval.kinds.work.cli.tables import said
from narval.system.clock import SimulatedClock

PEOPLE = """
[people.ann]
roles = ["approver"]
[people.ben]
roles = ["approver"]
[people.cleo]
roles = ["director"]
[people.dan]
[people.eve]
[roles.director]
above = ["approver"]
[admin]
roles = ["director"]
"""
WORK = """<cookbook group="w">
<work name="approve">
  <title>Approve {$request/@what}</title>
  <input id="request"><match>request</match></input>
  <for roles="approver" not="requester"/>
  <outcome name="approve"/><outcome name="reject"/>
  <field name="comment" type="text" required="reject">Why</field>
  <deadline after="5d" outcome="reject"><comment>late</comment></deadline>
  <remind after="1d"/>
</work>
<work name="vote">
  <title>Vote</title><for roles="approver"/>
  <outcome name="yes" needs="2"/><outcome name="no" needs="2"/>
</work>
<work name="tell"><title>Tell</title><for people="dan"/></work>
<work name="any"><title>Any</title></work>
</cookbook>"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    settings = 'timezone = "UTC"\n'
    texts = {"etc/narval.toml": settings, "etc/people.toml": PEOPLE, "recipes/w.xml": WORK}
    for path, text in texts.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


class Home:
    """A home in which several people act."""

    def __init__(self, path: Path) -> None:
        self.clock = SimulatedClock(1_000_000.0)
        self.agent = narval.open(path, clock=self.clock)

    def start(self, name: str, *elements: str) -> int:
        return int(self.does("dan", "start", name, *elements))

    def does(self, by: str, operation: str, *arguments: Any, **named: Any) -> Any:
        self.agent.asker = Asker(by, NOBODY, "python")
        return getattr(self.agent, operation)(*arguments, **named)

    def refusal(self, by: str, operation: str, *arguments: Any, **named: Any) -> str:
        with pytest.raises(WorkRefusedError) as raised:
            self.does(by, operation, *arguments, **named)
        return raised.value.kind

    def items(self, by: str, **named: Any) -> list[int]:
        return [row["item"] for row in self.does(by, "worklist", **named)]


@pytest.fixture
def at_work(home: Path) -> Iterator[Home]:
    made = Home(home)
    with made.agent:
        yield made


REQUEST = '<request what="a desk"/>'


def test_P44_a_worklist_has_what_is_offered_to_me_and_what_i_have(at_work: Home) -> None:
    item, told, anybody = at_work.start("w.approve", REQUEST), at_work.start("w.tell"), at_work.start("w.any")
    assert at_work.items("ann") == [item, anybody]
    assert at_work.items("dan") == [told, anybody]
    assert at_work.items("cleo") == [item, anybody], "a role above counts"
    at_work.does("ann", "claim", item)
    assert at_work.items("ann") == [item, anybody]
    assert at_work.items("ben") == [anybody]
    assert at_work.items("ben", every=True) == [item, anybody]
    at_work.does("ann", "release", item)
    assert at_work.items("ben") == [item, anybody]
    at_work.does("ben", "answer", item, "approve")
    assert at_work.items("ann", every=True) == [anybody]
    assert at_work.items("ann", state="done") == [item]


def test_who_has_answered_is_not_asked_while_it_waits_for_others(at_work: Home) -> None:
    item = at_work.start("w.vote")
    answer = at_work.does("ben", "answer", item, "yes")
    assert answer["answered"] == {"outcome": "yes", "has": 1, "needs": 2}
    assert at_work.items("ben") == []
    assert at_work.items("ann") == [item]
    (row,) = at_work.does("ben", "worklist", every=True)
    assert row["answered"] == answer["answered"]
    at_work.does("ben", "take_back", item)
    assert at_work.items("ben") == [item]
    at_work.does("ben", "answer", item, "no")
    at_work.does("ben", "answer", item, "yes")
    assert at_work.does("ann", "work_item", item)["voters"] == ["ben"]
    assert at_work.does("ann", "work_item", item)["outcomes"][0]["by"] is None, "not before she has answered"
    assert at_work.does("ann", "answer", item, "yes")["answered"] is None
    assert at_work.does("ann", "work_item", item)["outcomes"][0]["by"] == ["ben", "ann"]


def test_what_people_decide_has_the_labels_of_a_program_that_answered_for_one_of_them(at_work: Home) -> None:
    item = at_work.start("w.vote")
    at_work.agent.asker = Asker("ben", 0, "python", labels=("bot",))
    at_work.agent.ask("answer", item=item, outcome="yes")
    at_work.does("ann", "answer", item, "yes")
    labels = at_work.agent.daemon.agent.memory.labels
    (decision,) = at_work.agent.memory("decision")
    assert labels.names(labels.own(decision.eid)) == ("bot",)


def test_P35_overdue_first_then_by_deadline_then_oldest(at_work: Home) -> None:
    anybody, first = at_work.start("w.any"), at_work.start("w.approve", REQUEST)
    at_work.agent.elapse(hours=1)
    second = at_work.start("w.approve", REQUEST)
    assert at_work.items("ann") == [first, second, anybody]
    at_work.agent.elapse(hours=23)
    assert [row["overdue"] for row in at_work.does("ann", "worklist")] == [True, False, False]
    third = at_work.start("w.approve", REQUEST)
    assert at_work.items("ann", limit=2) == [first, second]
    assert at_work.items("ann", limit=2, after=second) == [third, anybody]


def test_P82_an_item_that_one_may_not_see_is_as_one_that_is_not_there(at_work: Home) -> None:
    item = at_work.start("w.approve", REQUEST)
    run = at_work.start("w.any")
    for number, operation in ((item, "work_item"), (999, "work_item"), (item, "claim"), (999, "answer")):
        with pytest.raises(WorkRefusedError) as raised:
            at_work.does("eve", operation, number)
        assert raised.value.kind == "no-item"
        assert str(raised.value) == f"there is no item {number} that you may see; `narval work` lists yours"
    assert at_work.does("eve", "work_item", run)["may"]
    at_work.does("ben", "answer", item, "approve")
    assert at_work.does("ann", "work_item", item)["outcome"] == "approve", "who could have is shown the end"
    assert at_work.refusal("ann", "claim", item) == "over"


def test_P47_an_item_as_plain_data(at_work: Home) -> None:
    item = at_work.start("w.approve", REQUEST)
    at_work.does("ann", "claim", item)
    at_work.does("ann", "save", item, {"comment": "so far"})
    shown = at_work.does("ann", "work_item", item)
    assert (shown["item"], shown["work"], shown["state"], shown["phase"]) == (
        item,
        "w.approve",
        "claimed",
        "active",
    )
    assert shown["title"] == "Approve a desk"
    assert "| Approve a desk" in shown["text"]
    assert shown["claimed"]["by"] == "ann"
    assert shown["draft"] == {"comment": ["so far"]}
    assert shown["may"] == ["claim", "release", "save", "delegate", "answer", "refuse"]
    assert [field["name"] for field in shown["fields"]] == ["comment"]
    assert at_work.does("ben", "work_item", item)["draft"] == {}
    assert at_work.does("ben", "work_item", item)["may"] == []
    assert at_work.does("cleo", "work_item", item)["may"] == ["release", "reassign"], "an administrator"
    with pytest.raises(WorkRefusedError) as raised:
        at_work.does("ann", "answer", item, "approve", shown="0" * 64)
    assert raised.value.kind == "changed"


def test_P27_others_votes_are_shown_to_who_has_voted(at_work: Home) -> None:
    item = at_work.start("w.vote")
    at_work.does("ann", "answer", item, "yes")
    assert [outcome["has"] for outcome in at_work.does("ann", "work_item", item)["outcomes"]] == [1, 0]
    assert [outcome["has"] for outcome in at_work.does("ben", "work_item", item)["outcomes"]] == [None, None]
    assert at_work.refusal("ann", "claim", item) == "not-exclusive"
    at_work.does("ann", "take_back", item)
    at_work.does("ben", "answer", item, "no")
    at_work.does("cleo", "answer", item, "no")
    assert at_work.does("ann", "work_item", item)["outcome"] == "no"


def test_P27_no_output_tells_what_others_have_answered_until_it_is_over(at_work: Home) -> None:
    item = at_work.start("w.vote")
    at_work.does("ann", "save", item, {})
    at_work.does("ann", "answer", item, "no")

    def told(by: str) -> str:
        rows = [row for row in at_work.does(by, "work_log", item) if row["did"] == "Voted"]
        shown = at_work.does(by, "ask", "show", run=item)
        history = [line for line in at_work.does(by, "history", item) if line["what"] != "Offered"]
        why = at_work.does(by, "why", item), at_work.does(by, "why", item, "ann")
        (element,) = at_work.agent.memory(f"work[@eid='{item}']")
        del shown["outcomes"][0]["id"], shown["outcomes"][1]["id"]
        return f"{rows}{shown}{history}{why}{element.attributes}"

    def replayed() -> str:
        entries = at_work.does("ben", "ask", "replay", run=item)["entries"]
        return "".join(f"{entry['what']} " for entry in entries)

    assert "'no'" not in told("ben")
    assert "answered no" not in told("ben")
    assert "'outcome': 'no'" in f"{at_work.does('ann', 'work_log', item)}"
    assert "ann answers. " in replayed()
    at_work.does("ben", "answer", item, "no")
    assert "'no'" in told("cleo")
    assert "ann answers no. " in replayed()


def test_P27_what_somebody_failed_to_answer_is_not_told_to_others(at_work: Home) -> None:
    item = at_work.start("w.vote")
    assert at_work.refusal("ann", "answer", item, "noo") == "no-outcome"
    for operation in ("work_log", "history"):
        assert "noo" not in f"{at_work.does('ben', operation, item)}", operation
    assert "got 'noo'; did you mean 'no'?" in f"{at_work.does('ann', 'work_log', item)}"


def test_P44_a_state_that_no_item_has_is_told(at_work: Home) -> None:
    with pytest.raises(RequestError, match="no item is ever 'dnoe'; did you mean 'done'"):
        at_work.does("ann", "worklist", state="dnoe")
    assert at_work.does("ann", "worklist", state="done") == []


def test_P77_who_comes_too_late_is_told_who_cancelled_it_and_why(at_work: Home) -> None:
    item = at_work.start("w.tell")
    at_work.does("cleo", "cancel", item, reason="bought already")
    at_work.agent.until_idle()
    with pytest.raises(WorkRefusedError) as raised:
        at_work.does("dan", "answer", item)
    assert str(raised.value) == (
        "it is withdrawn by cleo since 1970-01-12 13:46:40 (UTC) (bought already); nothing more can be done"
    )


def test_P20_each_act_and_its_refusals(at_work: Home) -> None:
    item = at_work.start("w.approve", REQUEST)
    assert at_work.refusal("ann", "release", item) == "not-claimed"
    at_work.does("ann", "claim", item)
    assert at_work.refusal("ben", "answer", item, "approve") == "claimed"
    assert at_work.refusal("ann", "answer", item, "aprove") == "no-outcome"
    with pytest.raises(WorkRefusedError) as raised:
        at_work.does("ann", "answer", item, "reject")
    assert (raised.value.kind, str(raised.value)) == (
        "bad-field",
        "Why: expected a value, for reject requires it",
    )
    assert '"field":"comment"' in raised.value.detail
    at_work.does("ann", "delegate", item, "ben", "you know them")
    assert at_work.items("ann") == []
    at_work.does("ben", "refuse", item, "no time")
    assert at_work.refusal("ann", "reassign", item, ["cleo"]) == "not-eligible"
    at_work.does("cleo", "reassign", item, ["cleo"])
    at_work.does("cleo", "answer", item, "approve")
    done = [row["did"] for row in at_work.does("cleo", "work_log", item)]
    assert done[0] == "Offered"
    assert done[-1] == "ItemAnswered"
    assert done.count("TurnedAway") == 5


def test_P37_the_log_says_who_did_what_by_which_right(at_work: Home) -> None:
    item, other = at_work.start("w.approve", REQUEST), at_work.start("w.any")
    at_work.does("cleo", "claim", item)
    at_work.does("dan", "answer", other)
    assert at_work.refusal("ann", "claim", item) == "claimed"
    turned_away = at_work.does("ben", "work_log", item)[-1]
    assert turned_away["why"].startswith("claimed by cleo since"), "there are no votes to hide"
    rows = at_work.does("cleo", "work_log", person="cleo")
    sentences = [said(row) for row in at_work.does("cleo", "work_log", item)]
    offered, until = "Approve a desk, to ann, ben, cleo; its deadline is 1970-01-17", "1970-01-13"
    assert [sentence.split(" 13:46")[0] for sentence in sentences] == [
        f"It is offered: {offered}",
        f"cleo takes it, until {until}",
        "An attempt of ann to claim was in vain: claimed by cleo since 1970-01-12",
    ]
    attempt = {"did": "TurnedAway", "by": "ben", "act": "claim", "why": "cleo has it"}
    assert said(attempt) == "An attempt of ben to claim was in vain: cleo has it."
    assert said({"did": "TurnedAway", "by": None}) == "An attempt was in vain.", "one that is only counted"
    assert [(row["item"], row["did"], row["by"], row["role"], row["way"]) for row in rows] == [
        (item, "Claimed", "cleo", "approver", "terminal")
    ]
    assert {row["item"] for row in at_work.does("cleo", "work_log")} == {item, other}
    assert {row["item"] for row in at_work.does("dan", "work_log")} == {other}
    assert at_work.does("cleo", "work_log", since="2999-01-01") == []


def test_P45_who_is_nobody_can_do_nothing(at_work: Home) -> None:
    item = at_work.start("w.any")
    assert at_work.refusal("zoe", "claim", item) == "not-eligible"
    with pytest.raises(WorkRefusedError, match="no person is named"):
        at_work.does("", "claim", item)
    assert at_work.items("") == [item], "a program of the home's owner sees all"
    with pytest.raises(RequestError, match="only administrators see what ben is asked"):
        at_work.does("ann", "worklist", person="ben")
    assert at_work.items("cleo", person="dan") == [item]


def test_P4_a_signal_to_an_item_is_refused(at_work: Home) -> None:
    item = at_work.start("w.any")
    with pytest.raises(RequestError, match="narval work"):
        at_work.agent.signal(item, "answer", outcome="done")
    assert at_work.items("ann") == [item]


def test_P18_who_loses_a_role_loses_the_claim_that_rests_on_it(at_work: Home, home: Path) -> None:
    item = at_work.start("w.approve", REQUEST)
    at_work.does("ann", "claim", item)
    (home / "etc/people.toml").write_text(
        PEOPLE.replace('[people.ann]\nroles = ["approver"]', "[people.ann]")
    )
    assert at_work.agent.ask("reload")["changed"]
    assert at_work.items("ann") == []
    assert at_work.items("ben") == [item]
    assert at_work.does("ben", "work_log", item)[-1]["did"] == "ClaimReleased"


def test_P18_a_start_looks_at_claims_again_if_the_directory_has_changed_meanwhile(home: Path) -> None:
    before = Home(home)
    with before.agent:
        item, kept = before.start("w.approve", REQUEST), before.start("w.any")
        before.does("ann", "claim", item)
        before.does("ann", "claim", kept)
    alike = Home(home)
    with alike.agent:
        assert alike.does("cleo", "work_log", item)[-1]["did"] == "Claimed"
    (home / "etc/people.toml").write_text(
        PEOPLE.replace('[people.ann]\nroles = ["approver"]', "[people.ann]")
    )
    after = Home(home)
    with after.agent:
        assert after.items("ben", state="offered") == [item]
        assert after.does("ben", "work_log", item)[-1]["did"] == "ClaimReleased"
        assert after.items("ann", state="claimed") == [kept]


def test_P30_P18_an_item_says_who_asked_and_by_which_right_one_may_answer(at_work: Home) -> None:
    item = at_work.start("w.approve", REQUEST)
    shown = at_work.does("cleo", "work_item", item)
    assert (shown["requesters"], shown["right"]) == (["dan"], {"role": "approver", "for": None})
    at_work.does("ann", "answer", item, "approve")
    assert at_work.does("cleo", "work_item", item)["right"] is None, "it is over"


def test_P16_without_a_file_the_owner_is_asked(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/w.xml").write_text(WORK)
    with narval.open(tmp_path, clock=SimulatedClock(0.0)) as agent:
        owner = agent.daemon.agent.lookup.people.owner
        item = agent.start("w.vote")
        at_work = Home.__new__(Home)
        at_work.agent = agent
        assert at_work.items(owner) == [item]
        at_work.does(owner, "answer", item, "yes")


def test_P83_the_index_costs_what_changes(at_work: Home) -> None:
    items = [at_work.start("w.any") for _ in range(30)]
    assert at_work.items("ann") == items
    at_work.does("ann", "claim", items[3])
    altered = at_work.agent.daemon.agent.watches.altered
    assert list(altered["work"]) == [items[3]]
    assert at_work.items("ben") == [item for item in items if item != items[3]]
    assert list(altered["work"]) == []


def test_items_that_nobody_lists_for_long_are_listed_anew_and_not_noted_for_ever(
    at_work: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MOST_ALTERED", 3)
    items = [at_work.start("w.any") for _ in range(2)]
    assert at_work.items("ann") == items
    items += [at_work.start("w.any") for _ in range(4)]
    at_work.does("ann", "claim", items[0])
    altered = at_work.agent.daemon.agent.watches.altered
    assert len(altered.get("work", ())) <= 3
    assert at_work.items("ben") == items[1:]


ASKING = """<recipe group="w" name="asking" start_step="ask" end_step="ask" decay="60">
  <step id="ask" type="work" target="w.tell"/></recipe>"""


def test_P60_a_mail_that_does_not_go_out_is_in_the_log_and_then_needs_attention(home: Path) -> None:
    (home / "recipes/mailed.xml").write_text(
        '<work group="w" name="mailed"><title>Yes?</title><ways names="mail"/></work>'
    )
    (home / "etc/people.toml").write_text('[people.ann]\nmail = ["ann@example.org"]\nweb = "operator"\n')
    (home / "etc/narval.toml").write_text('[mail]\nfrom = "n@example.org"\npath = "etc/people.toml"\n')
    made = Home(home)
    with made.agent:
        item = int(made.does("ann", "start", "w.mailed"))
        made.agent.until_idle()
        (row,) = [row for row in made.does("ann", "work_log", item) if row["did"] == "NoticePutOff"]
        assert (row["to"], bool(row["why"])) == ("ann", True)
        made.agent.elapse(minutes=10)
        assert [row["did"] for row in made.does("ann", "work_log", item)].count("NoticePutOff") == 1
        (line,) = [line for line in made.agent.ask("attention") if line["what"] == "unsent"]
        assert "could not be sent to ann yet" in line["text"]


def test_P60_people_are_written_to_about_an_item_that_has_ended(home: Path) -> None:
    (home / "recipes/mailed.xml").write_text(
        '<work group="w" name="mailed"><title>Yes?</title><ways names="mail terminal"/></work>'
    )
    (home / "etc/people.toml").write_text(
        "".join(f'[people.{name}]\nmail = ["{name}@example.org"]\n' for name in ("ann", "ben"))
    )
    (home / "etc/narval.toml").write_text('[mail]\nfrom = "n@example.org"\npath = "out"\n')
    for name in ("new", "cur", "tmp"):
        (home / "out" / name).mkdir(parents=True)
    made = Home(home)
    with made.agent:
        item = int(made.does("ann", "start", "w.mailed"))
        made.agent.until_idle()
        made.does("ann", "answer", item)
        made.agent.until_idle()
        assert len([*(home / "out/new").iterdir()]) == 3, "both are asked, and ben is told the end"


def test_P38_what_people_did_is_kept_though_the_plan_that_asked_is_forgotten(home: Path) -> None:
    (home / "recipes/asking.xml").write_text(ASKING)
    (home / "etc/narval.toml").write_text('work_kept = "30d"\n')
    made = Home(home)
    with made.agent:
        plan = made.start("w.asking")
        made.agent.until_idle()
        (item,) = made.items("dan")
        text = made.does("dan", "work_item", item)["text"]
        made.does("dan", "answer", item)
        made.agent.elapse(hours=1)
        assert made.agent.daemon.agent.runs.keys() == {item}, "the plan is forgotten"
        assert plan != item
    with narval.open(home, clock=made.clock) as made.agent:
        made.agent.elapse(days=29)
        assert made.items("dan", state="done") == [item]
        assert made.does("dan", "work_item", item)["text"] == text
        assert [row["did"] for row in made.does("dan", "work_log", item)] == ["Offered", "ItemAnswered"]
        made.agent.elapse(days=2)
        assert made.refusal("dan", "work_item", item) == "no-item"
        assert not made.agent.daemon.agent.runs


def test_P38_what_is_kept_of_a_person_can_be_erased(at_work: Home) -> None:
    first, second, third, passed = (at_work.start("w.any") for _ in range(4))
    at_work.does("ann", "answer", first)
    at_work.does("ben", "answer", second)
    at_work.does("ann", "claim", third)
    at_work.does("ann", "claim", passed)
    at_work.does("ann", "release", passed)
    at_work.does("ben", "answer", passed)
    with pytest.raises(RequestError, match="for administrators"):
        at_work.does("ann", "forget_person", "ben")
    assert at_work.does("cleo", "forget_person", "ann") == {"person": "ann", "forgotten": [first, passed]}
    assert at_work.items("cleo", state="done") == [second]
    assert at_work.items("ann") == [third], "what goes on is not erased"
    assert {row["item"] for row in at_work.does("cleo", "work_log")} == {second, third}
    at_work.agent.asker = Asker("ann", 0, "socket")
    assert at_work.agent.worklist(person="dan", every=True)
    assert at_work.agent.forget_person("ben")["forgotten"] == [second], "the owner of the home is ann"


def test_P79_an_item_is_offered_anew_in_the_current_version_and_who_asked_waits_on(home: Path) -> None:
    (home / "recipes/asking.xml").write_text(ASKING)
    made = Home(home)
    with made.agent:
        plan = made.start("w.asking")
        made.agent.until_idle()
        (item,) = made.items("dan")
        (home / "recipes/w.xml").write_text(WORK.replace("<title>Tell</title>", "<title>Tell all</title>"))
        assert made.agent.ask("reload")["changed"]
        assert made.does("dan", "work_item", item)["title"] == "Tell", "what is offered stays as it is"
        with pytest.raises(RequestError, match="administrators"):
            made.does("dan", "renew", item)
        again = made.does("cleo", "renew", item, "it says more now")["run"]
        made.agent.until_idle()
        assert made.items("dan") == [again]
        shown = made.does("dan", "work_item", again)
        assert (shown["title"], shown["run"]) == ("Tell all", {"run": plan, "step": "ask"})
        assert made.does("dan", "work_item", item)["state"] == "withdrawn"
        assert made.agent.run(plan)["phase"] == "active"
    with narval.open(home, clock=made.clock) as made.agent:
        made.agent.until_idle()
        assert made.refusal("dan", "claim", item) == "over"
        made.does("dan", "answer", again)
        made.agent.until_idle()
        assert made.agent.run(plan)["phase"] == "done"
        top = made.start("w.any")
        other = made.does("cleo", "renew", top)["run"]
        made.agent.until_idle()
        assert made.items("ann") == [other]
