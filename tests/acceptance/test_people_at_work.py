"""People at a real daemon: at terminals, many at once, and across `kill -9` (P21, P44, P75, P76, P80)."""

from __future__ import annotations

import os
import pty
import subprocess
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from narval.core.errors import NarvalError, WorkRefusedError
from narval.surfaces.control.client import Client
from tests.acceptance.home import Narval, make

PEOPLE = """
[people.ann]
roles = ["approver"]
[people.ben]
roles = ["approver"]
[people.cleo]
roles = ["director"]
[people.dan]
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
</work>
<work name="vote">
  <title>Vote</title><for roles="approver"/><outcome name="yes" needs="2"/><outcome name="no" needs="2"/>
</work>
</cookbook>"""
REQUEST = b'<request what="a desk"/>'


@pytest.fixture
def narval(tmp_path: Path) -> Narval:
    made = make(tmp_path, recipes=WORK)
    made.write("etc/people.toml", PEOPLE)
    return made


def start(narval: Narval, name: str = "w.approve") -> str:
    files = ["-"] if name == "w.approve" else []
    done = narval("start", name, *files, "--as", "dan", given=REQUEST)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip()


def says(narval: Narval, *words: str, by: str) -> tuple[int, str]:
    done = narval("work", *words, "--as", by)
    return done.returncode, (done.stdout or done.stderr).decode().strip()


def state(narval: Narval, item: str) -> Any:
    return narval.ask("work", "show", item, "--as", "cleo")


def test_P44_two_people_and_one_item(narval: Narval) -> None:
    with narval.running():
        item = start(narval)
        assert says(narval, by="dan") == (0, "nothing is asked of you")
        assert says(narval, "--state", "done", by="ann") == (0, "there is no such item that you may see")
        told = "narval: there is no person 'anne' in etc/people.toml; did you mean 'ann'?"
        assert says(narval, by="anne") == (1, told)
        assert f"{item}  w.approve  offered" in says(narval, by="ann")[1]
        shown = says(narval, "show", item, by="ann")[1].splitlines()
        assert "requested by  dan" in shown
        assert any(line.startswith("you may") and line.endswith(" (as approver)") for line in shown)
        assert says(narval, "claim", item, by="ann") == (0, f"item {item} is claimed")
        refused, told = says(narval, "claim", item, by="ben")
        assert refused == 1
        assert told.startswith("narval: claimed by ann since ")
        assert says(narval, "answer", item, "reject", by="ann") == (
            1,
            "narval: Why: expected a value, for reject requires it; give it by --set comment=TEXT",
        )
        assert says(narval, "answer", item, "reject", "--set", "comment=too dear", by="ann") == (
            0,
            f"item {item} is done: reject",
        )
        assert says(narval, "answer", item, "approve", by="ben")[0] == 1
        assert "done: reject" in says(narval, "--state", "done", by="ann")[1]
        assert narval("work", "claim").returncode == 2, "usage"
        log = narval.ask("work", "log", item, "--as", "cleo")
        assert [row["did"] for row in log] == [
            "Offered",
            "Claimed",
            "TurnedAway",
            "TurnedAway",
            "ItemAnswered",
        ]
        assert [row["by"] for row in log[1:]] == ["ann", "ben", "ann", "ann"]
        assert {row["actor"] for row in log[1:]} == {narval.ask("work", "log", item)[1]["actor"]}
        answer = narval.ask("memory", "decision")[0]["xml"]
        assert 'outcome="reject" by="ann"' in answer
        assert "<comment>too dear</comment>" in answer


def test_P29_who_asked_may_refuse_and_not_approve(narval: Narval) -> None:
    with narval.running():
        done = narval("start", "w.approve", "-", "--as", "ann", given=REQUEST)
        item = done.stdout.decode().strip()
        assert says(narval, "answer", item, "approve", by="ann")[1] == (
            "narval: the asker may not answer; ask another person to"
        )
        assert says(narval, "refuse", item, "--reason", "it is mine", by="ann")[0] == 0
        assert says(narval, "answer", item, "approve", by="ben")[0] == 0


def test_P80_until_idle_lists_what_waits_for_people(narval: Narval) -> None:
    start(narval)
    done = narval("run", "--until-idle")
    assert done.returncode == 0
    assert b"waits for people" in done.stdout
    assert b"Approve a desk" in done.stdout
    assert [row["title"] for row in narval.ask("run", "--until-idle")["asked"]] == ["Approve a desk"]


def test_P46_follow_tells_of_each_item_once_it_is_offered(narval: Narval) -> None:
    with narval.running():
        socket = narval.home / "var/control.sock"
        with Client(socket, acting_as="ann") as ann, Client(socket, acting_as="dan") as dan:
            assert ann.ask("worklist") == []
            told: list[Any] = []
            waiting = threading.Thread(target=lambda: told.extend(ann.ask("worklist", known=[], wait=60.0)))
            waiting.start()
            item = dan.ask("start", name="w.approve", elements=[REQUEST])["eid"]
            waiting.join(60)
            assert [row["item"] for row in told] == [item]


AT_ONCE, EACH = 50, 20


def test_P21_a_thousand_claims_at_once_and_one_person_has_it(narval: Narval) -> None:
    names = [f"p{number}" for number in range(AT_ONCE)]
    narval.write(
        "etc/people.toml", PEOPLE + "".join(f"[people.{name}]\nroles=['approver']\n" for name in names)
    )
    said: list[tuple[str, str]] = []
    with narval.running():
        item = int(start(narval))
        ready = threading.Barrier(AT_ONCE)

        def claim(name: str) -> None:
            with Client(narval.home / "var/control.sock", acting_as=name) as client:
                ready.wait(60)
                for _ in range(EACH):
                    try:
                        client.ask("claim", item=item)
                        said.append((name, "yes"))
                    except WorkRefusedError as error:
                        said.append((name, error.kind))

        threads = [threading.Thread(target=claim, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(said) == AT_ONCE * EACH
        winners = {name for name, what in said if what == "yes"}
        assert len(winners) == 1
        assert Counter(what for _, what in said) == {"yes": EACH, "claimed": EACH * (AT_ONCE - 1)}
        history = narval.ask("history", item)
        assert [line["by"] for line in history if line["what"] == "Claimed"] == [*winners]
        assert sum(line["what"] == "TurnedAway" for line in history) == EACH * (AT_ONCE - 1)


def test_P76_killed_in_every_state_an_item_is_as_it_was(narval: Narval) -> None:
    narval.write("etc/narval.toml", "")
    first, second = "", ""
    acts = (
        lambda: None,
        lambda: says(narval, "claim", first, by="ann"),
        lambda: says(narval, "save", first, "--set", "comment=half", by="ann"),
        lambda: says(narval, "delegate", first, "ben", by="ann"),
        lambda: says(narval, "refuse", first, "--reason", "no time", by="ben"),
        lambda: says(narval, "answer", second, "yes", by="ann"),
        lambda: says(narval, "take-back", second, by="ann"),
        lambda: says(narval, "answer", second, "no", by="ben"),
        lambda: says(narval, "answer", second, "no", by="cleo"),
        lambda: says(narval, "release", first, by="cleo"),
        lambda: says(narval, "reassign", first, "cleo", by="cleo"),
        lambda: says(narval, "answer", first, "approve", by="cleo"),
    )
    daemon = narval.daemon()
    assert b"is ready" in (daemon.stdout.readline() if daemon.stdout is not None else b"")
    first, second = start(narval), start(narval, "w.vote")
    for act in acts:
        act()
        before = [state(narval, item) for item in (first, second)]
        log = narval.ask("work", "log", "--as", "cleo")
        daemon.kill()
        daemon.communicate()
        daemon = narval.daemon()
        assert b"is ready" in (daemon.stdout.readline() if daemon.stdout is not None else b"")
        assert [state(narval, item) for item in (first, second)] == before
        assert narval.ask("work", "log", "--as", "cleo") == log
    assert [state(narval, item)["outcome"] for item in (first, second)] == ["approve", "no"]
    daemon.terminate()
    daemon.communicate()


def test_without_a_daemon_one_may_act_too(narval: Narval) -> None:
    item = start(narval)
    with narval.running():
        pass
    assert f"{item}  w.approve  offered" in says(narval, by="ann")[1]
    assert says(narval, "claim", item, by="ann") == (0, f"item {item} is claimed")
    with narval.running():
        assert says(narval, "claim", item, by="ben")[0] == 1


def test_P82_without_a_daemon_one_sees_what_one_sees_with_it(narval: Narval) -> None:
    def seen(item: str) -> dict[str, tuple[int, str]]:
        asked = [(), ("--all",), ("show", item), ("log", item)]
        return {
            f"{by} {words}": says(narval, *words, by=by) for by in ("dan", "ann", "anne") for words in asked
        }

    with narval.running():
        item = start(narval)
        assert says(narval, "claim", item, by="ben")[0] == 0
        told = seen(item)
    assert seen(item) == told
    assert told["anne ()"][0] == 1


def test_a_kind_goes_through_the_socket(narval: Narval) -> None:
    with narval.running(), Client(narval.home / "var/control.sock", acting_as="ann") as ann:
        with pytest.raises(NarvalError) as raised:
            ann.ask("claim", item=99)
        assert isinstance(raised.value, WorkRefusedError)
        assert raised.value.kind == "no-item"


PURCHASE = """<process-definition name="purchase" group="w">
  <node name="ask" type="wait" isStart="true"><condition use="yes"><match>request</match></condition>
    <arc to="agree"/></node>
  <node name="agree" type="work"><custom><target>w.approve</target></custom>
    <arc to="pay" name="approve"/><arc to="ask" name="reject" back="true"/></node>
  <node name="pay" type="wait"/>
</process-definition>"""


def test_P71_a_rejected_purchase_goes_back_and_is_asked_anew(narval: Narval) -> None:
    narval.write("recipes/w.wf.xml", PURCHASE)
    with narval.running():
        run = narval("start", "w.purchase", "--as", "dan").stdout.decode().strip()
        narval("add", "-", "--as", "dan", given=REQUEST)
        (item,) = narval.ask("work", "--as", "ann")
        assert item["run"] == {"run": int(run), "step": "agree"}
        assert says(narval, "answer", str(item["item"]), "reject", "--set", "comment=dear", by="ann")[0] == 0
        assert narval.ask("work", "--as", "ann") == [], "it waits for another request"
        narval("add", "-", "--as", "dan", given=REQUEST)
        (again,) = narval.ask("work", "--as", "ann")
        assert again["item"] != item["item"]
        assert says(narval, "answer", str(again["item"]), "approve", by="ben")[0] == 0
        tokens = narval.ask("tokens", run)["tokens"]
        assert [token["node"] for token in tokens if token["state"] == "active"] == ["pay"]
        log = narval.ask("work", "log", "--as", "cleo")
        assert [(row["by"], row.get("outcome")) for row in log if row["did"] == "ItemAnswered"] == [
            ("ann", "reject"),
            ("ben", "approve"),
        ]


def at_a_terminal(narval: Narval, *words: str, types: bytes) -> tuple[int, str]:
    """A command whose questions somebody answers, all typed ahead."""
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        narval.line(*words), stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    os.close(theirs)
    os.write(ours, types)
    said, _ = running.communicate(timeout=60)
    os.close(ours)
    return running.returncode, said.decode()


def test_P44_at_a_terminal_each_field_is_asked_for_until_it_is_right(narval: Narval) -> None:
    with narval.running():
        item = start(narval)
        words = ("work", "answer", item, "--as", "ann")
        status, said = at_a_terminal(narval, *words, types=b"reject\n\ntoo dear\n")
        assert status == 0, said
        assert "| Approve a desk" in said, "what is asked is shown"
        assert "outcome (approve, reject)" in said
        assert "Why (required)" in said
        assert "Why: expected a value, for reject requires it" in said
        assert f"item {item} is done: reject" in said
        assert b"too dear" in narval("memory", "decision", "--xml").stdout
