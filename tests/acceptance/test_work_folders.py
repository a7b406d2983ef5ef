"""Work answered by files, at a real daemon: exactly once, by whose folder it is (P55–P58)."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from narval.core.errors import WorkRefusedError
from narval.surfaces.control.client import Client
from tests.acceptance.home import Narval, make, until
from tests.forked_commands import Command

PEOPLE = """
[people.ann]
roles = ["approver"]
[people.ben]
roles = ["approver"]
[people.cleo]
[admin]
people = ["cleo"]
"""
WORK = """<cookbook group="w">
<work name="approve">
  <title>Approve {$request/@what} -- now</title>
  <input id="request"><match>request</match></input>
  <for roles="approver"/>
  <outcome name="approve"/><outcome name="reject"/>
  <field name="comment" type="text" required="reject">Why</field>
  <field name="limit" type="decimal" default="70"/>
  <ways names="terminal file"/>
</work>
<work name="hidden"><title>Not by file</title></work>
</cookbook>"""


@pytest.fixture
def narval(tmp_path: Path) -> Narval:
    made = make(tmp_path / "home", recipes=WORK)
    made.write("etc/people.toml", PEOPLE)
    for name in ("ann", "ben"):
        assert made("work", "folder", name).returncode == 0
    return made


def start(narval: Narval) -> str:
    done = narval("start", "w.approve", "-", "--as", "cleo", given=b'<request what="a desk"/>')
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip()


def lying(narval: Narval, folder: str) -> list[str]:
    path = narval.home / "work" / folder
    found = os.listdir(path) if path.is_dir() else []
    return sorted(name for name in found if name not in ("done", "refused") and not name.startswith("."))


def offered(narval: Narval, item: str, person: str = "ann") -> Path:
    name = f"{item}-w.approve.xml"
    until(lambda: name in lying(narval, person), f"item {item} is offered to {person}")
    return narval.home / "work" / person / name


def filled(file: Path, outcome: str, comment: str = "") -> bytes:
    text = file.read_text().replace('outcome=""', f'outcome="{outcome}"')
    return text.replace("<comment></comment>", f"<comment>{comment}</comment>").encode()


def hand_in(narval: Narval, content: bytes, person: str = "ann", name: str = "answer.xml") -> None:
    scratch = narval.write("data/scratch", content)
    scratch.rename(narval.home / "work" / person / "done" / name)


def reason(narval: Narval, name: str = "answer.xml", person: str = "ann") -> str:
    path = narval.home / "work" / person / "refused" / f"{name}.reason.txt"
    return str(until(lambda: path.is_file() and path.read_text(), f"{name} is refused"))


def state(narval: Narval, item: str) -> Any:
    return narval.ask("work", "show", item, "--as", "cleo")


def over(narval: Narval, item: str) -> Any:
    return until(lambda: (found := state(narval, item))["state"] == "done" and found, "it is done")


def test_P55_an_item_is_offered_as_a_file_filled_in_and_taken(narval: Narval) -> None:
    with narval.running():
        item = start(narval)
        file, other = offered(narval, item), offered(narval, item, "ben")
        text = file.read_text()
        assert "| Approve a desk -\\u{002d} now" in text, "a comment cannot have two hyphens"
        assert re.search(rf'<answer item="{item}" shown="[0-9a-f]{{64}}" outcome="">', text)
        assert "<limit>70</limit>" in text
        file.write_bytes(filled(file, "reject", "too &lt;dear&gt;"))
        file.rename(file.parent / "done" / file.name)
        assert over(narval, item)["outcome"] == "reject"
        until(lambda: not other.exists(), "the file of the other is gone")
        (answer,) = narval.ask("memory", "decision")
        assert 'by="ann"' in answer["xml"]
        assert 'way="file"' in answer["xml"]
        assert "<comment>too &lt;dear&gt;</comment><limit>70</limit>" in answer["xml"]
        (row,) = [row for row in narval.ask("work", "log", item) if row["did"] == "ItemAnswered"]
        assert (row["by"], row["way"]) == ("ann", "file")
        assert row["actor"] == file.parent.owner(), "the owner of the file is recorded (P56)"
        until(lambda: lying(narval, "ann/done") == [], "the file is removed")


def test_P55_files_go_when_another_claims_and_come_back_and_are_made_anew_at_the_start(
    narval: Narval,
) -> None:
    with narval.running():
        item = start(narval)
        file, other = offered(narval, item), offered(narval, item, "ben")
        assert narval("work", "claim", item, "--as", "ben").returncode == 0
        until(lambda: not file.exists(), "ann's file is gone")
        assert other.exists()
        assert narval("work", "release", item, "--as", "ben").returncode == 0
        offered(narval, item)
        done = narval("start", "w.hidden", "--as", "cleo")
        assert done.returncode == 0
    file.unlink()
    other.write_text("half filled in")
    with narval.running():
        offered(narval, item)
        assert other.read_text() == "half filled in", "what lies there is not written over"
        assert lying(narval, "ann") == [file.name], "only what names the way"


def kill(daemon: Command) -> None:
    daemon.kill()
    daemon.communicate()


@pytest.mark.parametrize("taken", [False, True])
def test_P55_killed_at_any_moment_an_answer_counts_once(narval: Narval, taken: bool) -> None:
    with narval.running():
        item = start(narval)
        content = filled(offered(narval, item), "approve")
    if taken:
        narval.write("work/ann/done/.taken/000000000001-answer.xml", content)
    else:
        hand_in(narval, content)
    for _ in range(3):
        daemon = narval.daemon()
        daemon.stdout.readline()
        kill(daemon)
    with narval.running():
        over(narval, item)
        until(lambda: lying(narval, "ann/done") == [], "the file is removed")
        until(lambda: not os.listdir(narval.home / "work/ann/done/.taken"), "nothing is left")
        done = [row["did"] for row in narval.ask("work", "log", item)]
        assert done.count("ItemAnswered") == 1
        assert not (narval.home / "work/ann/refused").exists()


BAD = {
    "half": (b"<answer item='1' shown='x'", "answer.xml:1:"),
    "bomb": (b'<!DOCTYPE a [<!ENTITY b "x">]><answer>&b;</answer>', "a DOCTYPE is not accepted"),
    "large": (b"<answer>" + b"x" * 10_000_000 + b"</answer>", "expected at most 1,048,576 bytes"),
    "other": (b"<request/>", "expected one element answer"),
    "several": (b"<memory><answer/><answer/></memory>", "expected one element answer"),
    "nothing": (b"<answer item='1'/>", "expected the attributes item and shown"),
    "number": (b"<answer item='one' shown='x'/>", "expected the attributes item and shown"),
    "unknown": (b"<answer item='999' shown='x'/>", "no-item: there is no item 999 that you may see"),
}


@pytest.mark.parametrize("name", BAD)
def test_P57_what_is_no_answer_is_refused_with_its_reason(narval: Narval, name: str) -> None:
    content, why = BAD[name]
    with narval.running():
        item = start(narval)
        offered(narval, item)
        hand_in(narval, content)
        assert why in reason(narval)
        assert state(narval, item)["state"] == "offered"


def test_P57_what_the_rules_refuse_is_refused_with_its_kind_and_offered_again(narval: Narval) -> None:
    with narval.running():
        item = start(narval)
        content = filled(offered(narval, item), "reject")
        line = content[: content.index(b"<comment>")].count(b"\n") + 1
        wrongs = {
            "a.xml": (content, f"a.xml:{line}:1: bad-field: Why: expected a value"),
            "b.xml": (content.replace(b'"reject"', b'"perhaps"'), "no-outcome: "),
            "c.xml": (re.sub(rb'shown="[0-9a-f]{64}"', b'shown="00"', content), "changed: "),
            "d.xml": (content.replace(b"<comment></comment>", b"<comment><b/></comment>"), "expected a text"),
        }
        for name, (given, why) in wrongs.items():
            hand_in(narval, given, name=name)
            assert why in reason(narval, name)
        offered(narval, item)
        narval("work", "claim", item, "--as", "ben")
        hand_in(narval, content, name="e.xml")
        assert "claimed: claimed by ben" in reason(narval, "e.xml")
        assert state(narval, item)["state"] == "claimed"


def test_P56_links_and_folders_of_others_are_not_taken(narval: Narval) -> None:
    with narval.running():
        item = start(narval)
        content = filled(offered(narval, item), "approve")
        outside = narval.write("data/outside.xml", content)
        done = narval.home / "work/ann/done"
        (done / "link.xml").symlink_to(outside)
        assert "found a link" in reason(narval, "link.xml")
        os.link(outside, narval.home / "work/ann/hard.xml")
        (narval.home / "work/ann/hard.xml").rename(done / "hard.xml")
        assert "hard links" in reason(narval, "hard.xml")
        os.mkfifo(done / "pipe.xml")
        assert "found a pipe" in reason(narval, "pipe.xml")
        (narval.home / "work/ann").chmod(0o777)
        hand_in(narval, content, name="open.xml")
        hand_in(narval, content, person="ben", name="ben.xml")
        over(narval, item)
        assert "open.xml" in lying(narval, "ann/done"), "others may write there"
        assert b'by="ben"' in narval("memory", "decision", "--xml").stdout
        assert b"work/ann is not looked after: not-yours" in narval("attention").stdout
        (narval.home / "work/ann").chmod(0o700)
        assert "over" in reason(narval, "open.xml"), "it is tried again"


def test_P58_a_folder_is_made_for_those_there_are(narval: Narval) -> None:
    refused = narval("work", "folder", "anne")
    assert refused.returncode == 1
    assert b"there is no person 'anne' in etc/people.toml; did you mean 'ann'?" in refused.stderr
    assert narval("work", "folder").returncode == 2


def test_P21_claims_at_the_socket_and_answers_in_files_at_once_and_one_of_them_counts(narval: Narval) -> None:
    people = [f"p{number}" for number in range(40)]
    at_socket, in_files = people[:20], people[20:]
    narval.write(
        "etc/people.toml", PEOPLE + "".join(f"[people.{name}]\nroles=['approver']\n" for name in people)
    )
    said: list[str] = []
    with narval.running():
        for name in in_files:
            (narval.home / "work" / name / "done").mkdir(parents=True)
        item = start(narval)
        filed = {name: filled(offered(narval, item, name), "approve") for name in in_files}
        ready = threading.Barrier(len(at_socket) + 1)

        def claim(name: str) -> None:
            with Client(narval.home / "var/control.sock", acting_as=name) as client:
                ready.wait(60)
                for _ in range(50):
                    try:
                        client.ask("claim", item=int(item))
                        said.append(name)
                    except WorkRefusedError as error:
                        said.append(error.kind)

        threads = [threading.Thread(target=claim, args=(name,)) for name in at_socket]
        for thread in threads:
            thread.start()
        ready.wait(60)
        for name, content in filed.items():
            hand_in(narval, content, person=name, name=f"{name}.xml")
        for thread in threads:
            thread.join(60)
        until(lambda: not any(lying(narval, f"{name}/done") for name in in_files), "all files are taken")
        assert len(said) == 1000
        claimed = {name for name in said if name in at_socket}
        refused = [name for name in in_files if (narval.home / "work" / name / "refused").exists()]
        until(lambda: len(claimed) + len(in_files) - len(refused) == 1, "one of them counts")
        log = [row["did"] for row in narval.ask("work", "log", item)]
        assert log.count("ItemAnswered") + min(1, log.count("Claimed")) == 1
        assert log.count("Claimed") <= 1
