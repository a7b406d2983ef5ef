"""Runs that fail are told: in the log each, to the user once for a cause (issue 12, "The assistant", 7)."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from narval.files.home import Home
from narval.surfaces.control.client import Client
from tests.acceptance.home import Narval, shipped, until

FAILING = """\
from narval import ActionError, Input, Output, action

@action(inputs=[Input("order", "order[@kind]")], outputs=[Output("done", "done")], runs="inline")
def fail(order):
    raise ActionError("the lamp\\nis out", order.attributes["kind"])
"""
RECIPES = """<cookbook group="w">
  <recipe name="r" start_step="s" end_step="s">
    <step id="s" type="action" target="w.fail"><input id="order" use="yes"><match>order</match></input></step>
  </recipe>
  <recipe name="outer" start_step="call" end_step="call"><step id="call" type="recipe" target="w.r"/></recipe>
</cookbook>"""
BY_MAIL = """<notify way="mail"/><identity name="Me" address="me@example.org"/>
<outbox kind="maildir" path="var/outbox"/>"""
TELL = """\
import os, sys
with open({told!r}, "a") as file:
    file.write(repr((sys.argv[1:], sys.stdin.read())) + chr(10))
sys.exit({status})
"""


def home_that_tells(folder: Path, status: int = 0, way: str | None = None) -> tuple[Narval, Path]:
    """The home that ships, with a recipe that fails, and a command that notes what it is told in a file."""
    narval, told = shipped(folder / "home"), folder / "told"
    told.touch()
    narval.write("modules/w.py", FAILING)
    narval.write("recipes/w.xml", RECIPES)
    settings = narval.home / "etc/narval.toml"
    settings.write_text(settings.read_text().replace('grants = "ask"', 'grants = "trust"'))
    program = folder / "tell.py"
    program.write_text(TELL.format(told=str(told), status=status))
    words = shlex.join([sys.executable, str(program), "$HOME;", "a b"])
    wanted = way if way is not None else f'<notify way="command" command="{words}"/>{BY_MAIL}'
    narval.write("data/memory.xml", f'<memory>{wanted}<start-plan recipe="notify.failures"/></memory>')
    return narval, told


def failures(client: Client, name: str, kind: str, times: int) -> list[int]:
    """The runs of so many starts of a recipe that fails, over."""
    orders = [f"<order kind='{kind}'/>".encode()] * times
    client.ask("add", elements=orders)
    runs = [client.ask("start", name=name, wait=True) for _ in range(times)]
    assert {run["phase"] for run in runs} == {"failed"}
    return [int(run["eid"]) for run in runs]


def warnings(narval: Narval) -> list[str]:
    """The messages of the log's warnings."""
    lines = [json.loads(line) for line in (narval.home / "var/narval.log").read_text().splitlines()]
    return [line["message"] for line in lines if line["level"] == "warning"]


def test_a_recipe_that_fails_forty_times_is_forty_warnings_and_one_notice(tmp_path: Path) -> None:
    narval, told = home_that_tells(tmp_path)
    with narval.running(), Client(Home(narval.home).socket()) as client:
        runs = failures(client, "w.r", "dark", 40)
        done = "plan[@name='failures' and @state='done']"
        until(lambda: len(client.ask("memory", xpath=done)) == 40, "all are seen to")
        assert len(told.read_text().splitlines()) == 1
        failures(client, "w.outer", "wet", 2)
        until(lambda: len(client.ask("memory", xpath=done)) == 42, "another cause is")
    assert len(list((narval.home / "var/outbox/new").iterdir())) == 2, "each way tells it"
    first, second = (eval(line) for line in told.read_text().splitlines())
    assert first[0] == ["$HOME;", "a b", "narval: w.r failed"], "no shell has seen it"
    said = f"Run {runs[0]} of w.r failed in step s: dark: the lamp is out\n\nnarval --home"
    assert first[1].startswith(said)
    assert first[1].endswith(f" why {runs[0]}\n")
    assert second[0][-1] == "narval: w.outer failed"
    warned = warnings(narval)
    assert [line for line in warned if " of w.r " in line] == [
        f"run {run} of w.r failed in step s: dark: the lamp is out; see `narval why {run}`" for run in runs
    ], "a called run is its caller's matter"
    assert len([line for line in warned if " of w.outer " in line]) == 2


def test_a_notice_that_cannot_be_told_is_in_the_log_and_tells_no_other(tmp_path: Path) -> None:
    narval, _ = home_that_tells(tmp_path, way='<notify way="command" command="/no/such/program"/>')
    with narval.running(), Client(Home(narval.home).socket()) as client:
        failures(client, "w.r", "dark", 3)
        over = "plan[@name='failures' and (@state='done' or @state='failed')]"
        until(lambda: len(client.ask("memory", xpath=over)) == 3, "all are seen to")
        assert len(client.ask("memory", xpath="notice")) == 1
    own = [line for line in warnings(narval) if "notify.failures" in line]
    assert len(own) == 1
    assert "bad-way: cannot run /no/such/program: No such file or directory" in own[0]


def test_without_a_way_failures_are_in_the_log_alone(tmp_path: Path) -> None:
    narval, told = home_that_tells(tmp_path, way="")
    with narval.running(), Client(Home(narval.home).socket()) as client:
        failures(client, "w.r", "dark", 2)
        done = "plan[@name='failures' and @state='done']"
        until(lambda: len(client.ask("memory", xpath=done)) == 2, "both are seen to")
    assert len(warnings(narval)) == 2
    assert told.read_text() == ""


def test_a_password_in_an_error_reaches_neither_the_log_nor_history_nor_a_notice(tmp_path: Path) -> None:
    narval, told = home_that_tells(tmp_path)
    action = FAILING.replace("the lamp\\nis out", "https://me:s3cr3t@x.example said password=s3cr3t")
    narval.write("modules/w.py", action)
    with narval.running(), Client(Home(narval.home).socket()) as client:
        (run,) = failures(client, "w.r", "dark", 1)
        until(told.read_text, "it is told")
        shown = [told.read_text(), (narval.home / "var/narval.log").read_text()]
        for command in (["history"], ["history", "--story"], ["show"], ["why"]):
            for form in ([], ["--json"]):
                shown.append(narval(*command, str(run), *form).stdout.decode())
                assert shown[-1]
        shown += [
            narval(*line).stdout.decode() for line in (["log", "--json"], ["runs", "--json"], ["status"])
        ]
    assert [text for text in shown if "s3cr3t" in text] == []
    assert "https://me:…@x.example said password=…" in shown[1]
