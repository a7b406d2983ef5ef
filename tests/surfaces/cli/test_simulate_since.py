"""`narval simulate --since`: what came is played again, and nothing of the home is touched."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from narval.files.home import Home
from narval.surfaces.cli.trials import past as command
from tests.surfaces.cli.command_line import daemon, narval, well
from tests.trials.simulate.homes import make_shop

NEW = """\
<recipe group="try" name="wonder" start_step="wait" end_step="ask" restart="parallel">
  <step id="wait" type="action" target="shop.nothing"/>
  <step id="ask" type="action" target="shop.ask"/>
  <transition id="comes"><in idref="wait"/><out idref="ask"/>
    <condition use="yes"><match>order[@id != '2']</match></condition></transition>
</recipe>
"""

ORDERS = """\
<recipe group="try" name="double" start_step="wait" end_step="order" restart="yes">
  <step id="wait" type="action" target="shop.nothing"/>
  <step id="order" type="action" target="try.more"/>
  <transition id="comes"><in idref="wait"/><out idref="order"/>
    <condition use="yes"><match>order[@id='1']</match></condition></transition>
</recipe>
"""

MORE = """\
from narval import Output, action

@action(outputs=[Output("order", "order[@id='more']")], runs="inline", pure=True)
def more():
    return "<order id='more'/>"
"""


@pytest.fixture(scope="module")
def lived_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home to which three orders came; of the first it asked what it wonders about."""
    home = make_shop(tmp_path_factory.mktemp("past") / "shop").path
    well(home, "add", "-", given="<order id='1'/>")
    well(home, "start", "shop.wonder")
    well(home, "run", "--until-idle")
    well(home, "add", "-", given="<memory><order id='2'/><order id='3'/></memory>")
    well(home, "run", "--until-idle")
    (home / "new.xml").write_text(NEW)
    return home


@pytest.fixture
def past(lived_in: Path, tmp_path: Path) -> Path:
    """A copy of that home."""
    return Path(shutil.copytree(lived_in, tmp_path / "shop"))


def since(home: Path, *arguments: object) -> str:
    """The report for people, with its moments taken out."""
    told = well(home, "simulate", *arguments)
    told = re.sub(r"(element|in run) \d+", r"\1 N", told)
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?", "WHEN", told)


def digests(home: Path) -> dict[str, str]:
    files = (path for path in sorted(home.rglob("*")) if path.is_file() and path.suffix != ".pyc")
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


REPORT = """\
try.wonder on what came from WHEN to WHEN Europe/Paris
  3 arrivals: 3 by hand
  memory of that day: 0 elements kept, the oldest is of WHEN

it would have begun 2 times: 1 done, 1 failed
  failed 1 time: no-answer: shop.ask would be called, and what it gives cannot be made up; say it in a \
scenario: <answer action="shop.ask">…</answer>
it would have sent 2 times
  WHEN  send   shop.ask: <order id="1"/> (as then)
  WHEN  send   shop.ask: <order id="3"/> (unanswered)
1 run would still wait:
    comes waits for an element for each condition
      not met  order[@id != '2']
               element N (order · id 3) is nearest: expected one not used before, found used by try.wonder \
comes #1 in run N
other definitions would have done the same
"""


def test_a_new_definition_is_played_on_what_came_and_gets_the_real_answers(past: Path) -> None:
    before = digests(past)
    assert since(past, past / "new.xml", "--since", "1h") == REPORT
    assert digests(past) == before


def test_nothing_is_called(past: Path) -> None:
    called = {path.name: path.read_text() for path in past.glob("*.called")}
    well(past, "simulate", past / "new.xml", "--since", "1h")
    assert {path.name: path.read_text() for path in past.glob("*.called")} == called


def test_as_json(past: Path) -> None:
    told: dict[str, Any] = json.loads(well(past, "simulate", past / "new.xml", "--since", "1h", "--json"))
    assert (told["definitions"], told["came"]) == (["try.wonder"], {"by hand": 3})
    assert (told["begun"], told["ended"], told["under_way"]) == (2, {"done": 1, "failed": 1}, 1)
    assert [(deed["name"], deed["how"]) for deed in told["deeds"]] == [
        ("shop.ask", "as then"),
        ("shop.ask", "unanswered"),
    ]
    assert told["counts"] == {"sent": 2, "written": 0, "asked": 0}


def test_whom_it_would_ask_whether_a_call_may_be_made_is_counted(past: Path) -> None:
    work = '<work group="home" name="agree"><title>May it?</title><outcome name="approve"/></work>'
    (past / "recipes/agree.xml").write_text(work)
    (past / "asks.xml").write_text(NEW.replace('"shop.ask"', '"shop.ask" approve="home.agree"'))
    told = json.loads(well(past, "simulate", past / "asks.xml", "--since", "1h", "--json"))
    assert (told["counts"], told["under_way"]) == ({"sent": 0, "written": 0, "asked": 2}, 3)


@pytest.mark.parametrize(("kind", "target"), [("work", "tell"), ("recipe", "part")])
def test_what_others_of_the_file_begin_is_not_begun_by_itself(past: Path, kind: str, target: str) -> None:
    needed = '<input id="o"><match>order</match></input>'
    calls = NEW.replace('type="action" target="shop.ask"', f'type="{kind}" target="try.{target}"')
    (past / "calls.xml").write_text(f"""<cookbook group="try">{calls}
        <work name="tell"><title>Look</title>{needed}<outcome name="ok"/></work>
        <recipe name="part" start_step="a" end_step="a">
          <step id="a" type="action" target="shop.nothing"/></recipe></cookbook>""")
    told = json.loads(well(past, "simulate", past / "calls.xml", "--since", "1h", "--json"))
    alone = kind == "work"  # nothing calls the recipe then
    assert (told["begun"], told["ended"].get("failed", 0)) == (4 + alone, 0), "two, and what they call"


def test_a_program_is_told_how_far_it_is(past: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "PACE", 0.0)
    monkeypatch.setattr(command, "REST", 0)
    arguments = past / "new.xml", "--since", "1h"
    first, *lines = map(json.loads, well(past, "simulate", *arguments, "--progress").splitlines())
    assert (first["definitions"], sorted(first)) == (["try.wonder"], ["definitions", "since", "until"])
    assert lines[0] == {"read": 0}
    played = [(line["played"], line["arrivals"]) for line in lines if "played" in line]
    assert played == sorted(played)
    assert played[-1] == (3, 3)
    assert [line.get("last", False) for line in lines[-2:]] == [False, True]
    last = lines.pop()["report"]
    whole = json.loads(well(past, "simulate", *arguments, "--json"))
    assert {**last, "since": "", "until": ""} == {**whole, "since": "", "until": ""}
    assert lines[-1]["report"] == last
    assert lines[-1]["reached"] == last["until"]


def test_what_others_would_have_done_otherwise(past: Path) -> None:
    (past / "modules" / "try.py").write_text(MORE)
    (past / "double.xml").write_text(ORDERS)
    told = since(past, past / "double.xml", "--since", "1h")
    assert (
        "other definitions would have done otherwise:\n"
        "  shop.sell: 1 more runs, 5 rather than 4\n"
        "  shop.sell: 1 more calls of shop.nothing, 5 rather than 4\n"
        "  shop.sell: 1 more calls of shop.post, 4 rather than 3\n"
        "  shop.sell: 1 more calls of shop.price, 4 rather than 3\n"
    ) in told


def test_a_file_with_the_name_of_a_definition_takes_its_place(past: Path) -> None:
    text = (past / "recipes" / "shop.xml").read_text().replace("order[@id]", "order[@id='1']")
    (past / "shop.xml").write_text(text)
    told = json.loads(well(past, "simulate", past / "shop.xml", "--since", "1h", "--json"))
    post = next(row for row in told["others"] if row["action"] == "shop.post")
    assert (post["without"], post["with"]) == (3, 1)


def test_a_definition_of_the_home_by_its_name(past: Path) -> None:
    told = json.loads(well(past, "simulate", "shop.sell", "--since", "1h", "--json"))
    assert (told["begun"], told["counts"]["sent"]) == (3, 3)


def test_what_is_sent_to_another_agent_is_told_with_it(past: Path) -> None:
    (past / "agents/ledger").mkdir(parents=True)
    (past / "agents/ledger/agent.toml").write_text("")
    step = '<step id="ask" type="send" to="ledger"><input id="what"><match>order</match></input></step>'
    sends = NEW.replace('<step id="ask" type="action" target="shop.ask"/>', step)
    (past / "new.xml").write_text(sends)
    shown = since(past, "--since", "1d", past / "new.xml")
    assert 'send   ledger: <order id="1"/>' in shown
    (past / "recipes/new.xml").write_text(sends)
    assert re.search(r'ask: sends \d+ to ledger: <order id="\d"/>', well(past, "simulate", "try.wonder"))


def test_only_the_newest_fifty_deeds_are_listed_unless_all_are_asked_for(past: Path) -> None:
    orders = "".join(f"<order id='n{number}'/>" for number in range(60))
    well(past, "add", "-", given=f"<memory>{orders}</memory>")
    told = json.loads(well(past, "simulate", "shop.sell", "--since", "1h", "--json"))
    assert (len(told["deeds"]), told["counts"]["sent"]) == (50, 63)
    told = json.loads(well(past, "simulate", "shop.sell", "--since", "1h", "--all", "--json"))
    assert len(told["deeds"]) == 63


def forget(home: Path) -> None:
    """Have the second order, and the runs that are over, gone, as if they had been forgotten."""
    with closing(sqlite3.connect(home / "var" / "store.db")) as store:
        store.execute("DELETE FROM elements WHERE CAST(xml AS TEXT) LIKE '%id=_2_%'")
        store.execute("DELETE FROM journal WHERE run IN (SELECT eid FROM runs WHERE phase <> 'active')")
        store.execute("DELETE FROM runs WHERE phase <> 'active'")
        store.commit()


def test_what_is_forgotten_is_said_and_a_backup_adds_it(past: Path) -> None:
    backup = past.parent / "kept.backup"
    well(past, "backup", backup)
    whole = since(past, past / "new.xml", "--since", "1h")
    forget(past)
    told = since(past, past / "new.xml", "--since", "1h")
    assert "  2 arrivals: 2 by hand\n" in told
    assert "  forgotten, without a backup: 5 elements and runs of since then\n" in told
    assert 'shop.ask: <order id="1"/> (unanswered)' in told
    assert since(past, past / "new.xml", "--since", "1h", "--backup", backup) == whole
    (past / "backups").mkdir()
    backup.rename(past / "backups" / "kept.backup")
    assert since(past, past / "new.xml", "--since", "1h") == whole


def test_a_broken_backup_is_left_out_and_one_that_is_named_is_refused(past: Path, tmp_path: Path) -> None:
    backup = tmp_path / "half.backup"
    well(past, "backup", backup)
    backup.write_bytes(backup.read_bytes()[:5000])
    refused = narval(past, "simulate", past / "new.xml", "--since", "1h", "--backup", backup)
    assert refused.exit_code == 1
    assert "half.backup" in refused.stderr
    (past / "backups").mkdir()
    backup.rename(past / "backups" / "half.backup")
    assert "  left out: backup " in since(past, past / "new.xml", "--since", "1h")


def test_a_backup_of_another_home_is_refused(past: Path, tmp_path: Path) -> None:
    well(tmp_path, "init", tmp_path / "other")
    well(tmp_path / "other", "add", "-", given="<order id='9'/>")
    well(tmp_path / "other", "backup", tmp_path / "other.backup")
    asked = "simulate", past / "new.xml", "--since", "1h", "--backup", tmp_path / "other.backup"
    refused = narval(past, *asked)
    assert "expected a backup of this home, found one of another" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("shop.sell", "--since", "2999-01-01"), "expected a moment in the past"),
        (("--since", "90d"), "expected a definition to try: its name, or its file"),
        (("shop.sold", "--since", "90d"), "there is no definition and no file 'shop.sold'; did you mean"),
        (
            ("shop.sell", "--since", "soon"),
            "expected a duration such as 90d, or a date such as",
        ),
        (
            ("shop.sell", "--since", "90d", "--until", "2d"),
            "--since goes with --backup, --all and --prog",
        ),
        (("shop.sell", "--all"), "--backup, --all and --progress go with --since"),
        (("shop.sell", "--progress"), "--backup, --all and --progress go with --since"),
    ],
)
def test_what_cannot_be_is_said(past: Path, arguments: tuple[str, ...], why: str) -> None:
    told = narval(past, "simulate", *arguments)
    assert told.exit_code != 0
    assert why in told.stderr


def test_a_file_with_a_fault_is_refused_with_its_place(past: Path) -> None:
    (past / "new.xml").write_text(NEW[:-20])
    told = narval(past, "simulate", past / "new.xml", "--since", "90d")
    assert told.exit_code != 0
    assert "new.xml:" in told.stderr


def test_nothing_came(shop: Home) -> None:
    told = since(shop.path, "shop.sell", "--since", "90d")
    assert "  0 arrivals\n" in told
    assert "it would have begun 0 times\n" in told


def test_a_daemon_is_at_work_beside_it(past: Path) -> None:
    with daemon(past):
        well(past, "add", "-", given="<order id='4'/>")
        told = json.loads(well(past, "simulate", "shop.sell", "--since", "1h", "--json"))
        assert told["came"] == {"by hand": 4}


def test_an_end_in_between_tells_what_is_known_so_far(past: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("narval.trials.past.past.FEW", 1)
    told: list[int] = []

    class Interrupted(command.ProgressLine):
        def show(self, work: str) -> None:
            if "arrivals played" in work and work.startswith("1 "):
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(command, "ProgressLine", Interrupted)
    told = json.loads(well(past, "simulate", "shop.sell", "--since", "1h", "--json"))
    assert (told["stopped"], told["counts"]["sent"]) == ("it was ended", 1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


MARKET = """\
from narval import Output, action

@action(source=True, label="market", outputs=[Output("order", "order", list=True)])
async def orders():
    yield "<order id='4'/>"
"""

LISTEN = """\
<recipe group="market" name="listen" start_step="listen" end_step="listen">
  <step id="listen" type="action" target="market.orders"/>
</recipe>
"""


def test_a_call_that_a_person_rejected_is_asked_for_again_as_its_element_has_its_labels(past: Path) -> None:
    (past / "etc/trust.toml").write_text('[[rule]]\nfrom = "market"\nthen = "ask"\n')
    (past / "modules/market.py").write_text(MARKET)
    (past / "recipes/market.xml").write_text(LISTEN)
    (past / "new.xml").rename(past / "recipes/new.xml")
    well(past, "take", "recipes/trust.xml")
    well(past, "start", "try.wonder")
    well(past, "start", "market.listen")
    well(past, "run", "--until-idle")
    for item in json.loads(well(past, "work", "--json")):
        well(past, "work", "answer", item["item"], "reject")
    assert "rejected" in narval(past, "run", "--until-idle").output
    report = since(past, "try.wonder", "--since", "1h")
    assert "it would have sent 2 times, asked 1 time\n" in report
    assert "  WHEN  ask    trust.ask\n" in report
