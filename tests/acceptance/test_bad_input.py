"""What is malformed or hostile is refused with a typed error; the daemon goes on, memory is unharmed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.home import Narval, make, one_step, shipped, until

BOMB = b"""<!DOCTYPE a [<!ENTITY b "bbbbbbbbbb"><!ENTITY c "&b;&b;&b;&b;&b;&b;"><!ENTITY d "&c;&c;&c;&c;">]>
<a>&d;&d;&d;</a>"""
EXTERNAL = b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/hostname">]><a>&b;</a>'
DEEP = b"<a>" * 10_000 + b"</a>" * 10_000
HOSTILE = {
    "an entity bomb": (BOMB, "DOCTYPE"),
    "an external entity": (EXTERNAL, "DOCTYPE"),
    "a DOCTYPE": (b"<!DOCTYPE a><a/>", "DOCTYPE"),
    "a depth of 10,000": (DEEP, "deep"),
    "invalid UTF-8": (b"<a>\xff\xfe\xc3</a>", ""),
    "control characters": (b"<a>\x00\x01\x1b</a>", ""),
    "no XML at all": (b"hello", ""),
    "nothing": (b"", ""),
}
LARGE = "100 MB of text"
"""What is made for its own test alone: each program of tests would hold it to its end."""
MODULE = """
from narval import action

@action(runs="inline")
def nothing():
    return None
"""
GOOD = f"<cookbook>{one_step('good', 'w.nothing')}</cookbook>"
BAD = """<cookbook>
<recipe group="w" name="good" start_step="s" end_step="gone">
  <step id="s" type="action" target="w.nothing"/>
  <step id="s" type="action" target="w.unheard"/>
</recipe>
</cookbook>"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Narval]:
    """A home with a daemon on it, and one element in memory that was there before."""
    place = tmp_path_factory.mktemp("input") / "home"
    narval = make(place, module=MODULE, recipes=GOOD, memory="<memory><precious/></memory>")
    with narval.running():
        yield narval


@pytest.mark.parametrize("what", [*HOSTILE, LARGE])
def test_a_hostile_element_is_refused_by_a_daemon_that_goes_on(home: Narval, what: str) -> None:
    data, reason = HOSTILE.get(what) or (b"<a>" + b"x" * 100_000_000 + b"</a>", "")
    before = home.ask("status")
    done = home("add", "-", given=data)
    message = done.stderr.decode()
    assert done.returncode == 1, message
    assert reason.lower() in message.lower()
    assert "Traceback" not in message
    assert len(message) < 2000
    after = home.ask("status")
    assert (after["pid"], after["elements"]) == (before["pid"], before["elements"])


def test_hostile_mail_does_no_harm_and_the_mail_after_it_is_answered(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    narval = shipped(tmp_path_factory.mktemp("mail") / "home")
    box = narval.home / "data/demo/Maildir/new"
    for file in box.iterdir():
        file.unlink()
    head = b"From: a@example.com\nTo: assistant@example.org\nSubject: s\nMessage-ID: <%d@example.com>\n"
    head += b"Date: Sat, 21 Nov 2026 08:00:00 +0000\n"
    for number, (data, _) in enumerate(HOSTILE.values()):
        box.joinpath(f"{number}.xml").write_bytes(head % number + b"Content-Type: text/xml\n\n" + data)
        box.joinpath(f"{number}.raw").write_bytes(data)
    good = (head % 99).replace(b"From: a@", b"From: b@")  # an address is answered once in a day
    box.joinpath("good").write_bytes(good + b"\nhello\n")
    done = narval("run", "--until-idle", "--timeout", "120")
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    sent = [file.read_bytes() for file in (narval.home / "var/outbox/new").iterdir()]
    assert any(b"In-Reply-To: <99@example.com>" in mail for mail in sent)


def test_N13_a_bad_recipe_file_leaves_the_last_good_version_at_work_across_restarts(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    narval = make(tmp_path_factory.mktemp("recipes") / "home", module=MODULE, recipes=GOOD)
    with narval.running():
        assert narval("start", "w.good", "--wait").returncode == 0
    narval.write("recipes/w.xml", BAD)
    for _ in range(2):
        with narval.running():
            faults = narval.ask("status")["faults"]
            assert {fault["path"] for fault in faults} == {"recipes/w.xml"}
            assert len(faults) >= 2
            assert all(fault["line"] > 1 and fault["column"] >= 1 for fault in faults)
            assert narval("start", "w.good", "--wait").returncode == 0


def test_N13_a_module_that_does_not_import_leaves_its_last_good_version_at_work(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    narval = make(tmp_path_factory.mktemp("module") / "home", module=MODULE, recipes=GOOD)
    assert narval("start", "w.good", "--wait").returncode == 0
    narval.write("modules/w.py", "import no_such_thing\n" + MODULE)
    with narval.running():
        assert narval("start", "w.good", "--wait").returncode == 0
        (fault,) = narval.ask("status")["faults"]
        assert (fault["path"], fault["line"]) == ("modules/w.py", 1)
        assert "no_such_thing" in fault["message"]


def test_N4_a_bad_memory_file_leaves_what_it_declared_before(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    narval = make(tmp_path_factory.mktemp("memory") / "home", memory="<memory><rule n='1'/></memory>")
    assert narval("run", "--until-idle").returncode == 0
    narval.write("data/memory.xml", "<memory><rule n='1'/>")
    with narval.running():
        until(lambda: narval.ask("status")["faults"], "the fault is in view")
        assert [element["name"] for element in narval.ask("memory", "rule")] == ["rule"]
    narval.write("data/memory.xml", "<memory><rule n='1'/><rule n='2'/></memory>")
    assert len(narval.ask("memory", "rule")) == 2
