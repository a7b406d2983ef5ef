"""What is secret stays so in the files that narval writes, whichever way they are read again, copied or moved
with their home (F2).
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import narval
from narval.core.errors import ActionError
from narval.kinds.dataflow.calls import messages
from narval.surfaces.python.agent import Agent
from tests.files.test_reach import Told

TRUST = """
[secret]
health = "diary"

[[rule]]
secret = "*"
recipe = ["w.keep", "w.Export", "w.Tell"]
then = "allow"

[[rule]]
secret = "*"
then = "refuse"
"""
SETTINGS = """
[sources.table]
kind = "csv"
path = "data/kept.csv"

[sources.store]
kind = "sqlite"
path = "data/kept.db"
write = true
"""
FLOWS = """
PLAN Read {
  INPUT:
  OUTPUT: got
  BODY { retrieve("table", "what <> 'x'" : got) }
}
PLAN Export {
  INPUT:
  OUTPUT:
  BODY {
    elements("diary" : found)
    project("content", found : rows)
    accumulate(rows : all)
    exportrelation("store", "days", all :)
  }
}
PLAN Import {
  INPUT:
  OUTPUT: got
  BODY { importrelation("store", "days" : got) }
}
PLAN Tell {
  INPUT:
  OUTPUT:
  BODY {
    elements("diary" : found)
    project("content", found : rows)
    notify("file:data/told.txt", rows :)
  }
}
"""


def step(target: str, arguments: str = "", kind: str = "action") -> str:
    given = f"<arguments>{arguments}</arguments>" if arguments else ""
    return f"<step id='do' type='{kind}' target='{target}'>{given}</step>"


def recipe(name: str, target: str, arguments: str) -> str:
    return f"<recipe name='{name}' start_step='do' end_step='do'>{step(target, arguments)}</recipe>"


TAKE = """<recipe name='take' start_step='read' end_step='write'>
  <step id='read' type='action' target='files.read_text'>
    <arguments><file path='data/in.txt'/></arguments></step>
  <step id='write' type='action' target='files.write'>
    <arguments><text path='data/kept.csv'>{$read}</text></arguments></step>
  <transition id='t'><in idref='read'/><out idref='write'/></transition>
</recipe>"""
LINKS = """
[[rule]]
from = "*"
recipe = "w.take"
then = "allow"

[[rule]]
from = "*"
part = "what"
holds = ["link"]
then = "refuse"
"""

KEEP = f"""<recipe name='keep' start_step='wait' end_step='do'>
  <step id='wait' type='action' target='basic.nothing'/>
  {step("files.write", "<text path='data/kept.csv'>{$day}</text>")}
  <transition id='t'><in idref='wait'/><out idref='do'/>
    <condition as='day'><match>diary</match></condition></transition>
</recipe>"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    to = f"<file path='data/kept.csv'/><to path='{tmp_path}/out/a.csv' folder='{tmp_path}/out'/>"
    recipes = (
        KEEP,
        TAKE,
        recipe("read", "files.read_text", "<file path='data/kept.csv'/>"),
        recipe("told", "files.read_text", "<file path='data/told.txt'/>"),
        recipe("copy", "files.copy", to),
        recipe("copy_memory", "files.copy", to.replace("data/kept.csv'", "data/memory.xml' folder='data'")),
    )
    files = {
        "etc/trust.toml": TRUST,
        "etc/narval.toml": SETTINGS,
        "recipes/w.xml": f"<cookbook group='w'>{''.join(recipes)}</cookbook>",
        "recipes/w.plan": FLOWS,
        "data/memory.xml": "<memory><diary>what\nhealthy\n</diary></memory>",
    }
    for path, text in files.items():
        (tmp_path / "home" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "home" / path).write_text(text)
    return tmp_path / "home"


def done(agent: Agent, *names: str) -> None:
    for name in names:
        agent.start(f"w.{name}")
        agent.until_idle()


def labels(agent: Agent, pattern: str) -> list[str]:
    return list(agent.ask("trust", eid=agent.memory(pattern)[-1].eid)["labels"])


def test_a_copy_outside_of_a_secret_file_is_judged_as_the_secret(home: Path) -> None:
    with narval.open(home) as agent:
        done(agent, "keep", "copy")
        (error,) = agent.memory("error")
        assert error.attributes["type"] == "refused-by-rule", error.text
        assert "`file`, which has the label secret:health" in error.text
        assert not (home.parent / "out/a.csv").exists()
    parts = Told(home).parts("w.copy", "do")
    assert "secret:health" in parts["file"].all | parts["file"].by_code


def test_a_file_that_is_copied_may_hold_what_a_rule_asks_for(home: Path) -> None:
    (home / "etc/trust.toml").write_text(LINKS)
    (home / "data/in.txt").write_text("see evil.example/x")
    with narval.open(home) as agent:
        done(agent, "take", "copy")
        (error,) = agent.memory("error")
        assert error.attributes["type"] == "refused-by-rule", error.text
        assert not (home.parent / "out/a.csv").exists()


def test_a_copy_outside_of_the_homes_own_elements_is_judged_as_any_secret(home: Path) -> None:
    with narval.open(home) as agent:
        done(agent, "copy_memory")
        (error,) = agent.memory("error")
        assert error.attributes["type"] == "refused-by-rule", error.text
        assert not (home.parent / "out/a.csv").exists()


def test_a_file_of_a_home_that_has_moved_keeps_its_labels(home: Path) -> None:
    with narval.open(home) as agent:
        done(agent, "keep")
    shutil.move(home, home.parent / "moved")
    with narval.open(home.parent / "moved") as agent:
        done(agent, "read")
        assert labels(agent, "text") == ["file", "secret:health"]


@pytest.mark.parametrize(
    ("writes", "reads", "pattern"),
    [("keep", "Read", "relation"), ("Export", "Import", "relation"), ("Tell", "told", "text")],
)
def test_a_file_that_a_dataflow_reads_or_writes_keeps_its_labels(
    home: Path, writes: str, reads: str, pattern: str
) -> None:
    (home / "etc/trust.toml").write_text(TRUST.replace('"w.keep", ', f'"w.{reads}", "w.keep", '))
    with narval.open(home) as agent:
        done(agent, writes, reads)
        assert labels(agent, pattern) == ["file", "secret:health"], agent.memory("error")


def test_a_file_has_its_labels_before_a_dataflow_writes_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that is given up, or killed, tells nothing of what it wrote."""
    with narval.open(home) as agent:
        labels, at_write = agent.daemon.agent.memory.labels, list[tuple[str, ...]]()

        def append(folder: Path, message: messages.FlowMessage) -> None:
            at_write.append(labels.names(labels.files["data/told.txt"]))

        monkeypatch.setattr(messages, "_append", append)
        done(agent, "Tell")
        assert at_write == [("secret:health",)], agent.memory("error")


def test_an_error_of_a_dataflow_has_the_labels_of_what_its_session_received(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def append(folder: Path, message: messages.FlowMessage) -> None:
        raise ActionError(f"{message.text} cannot be found", "unreachable", final=True)

    monkeypatch.setattr(messages, "_append", append)
    with narval.open(home) as agent:
        done(agent, "Tell")
        assert labels(agent, "error") == ["secret:health"]


def test_a_dataflow_that_acts_outside_reads_no_secret_file_that_a_rule_refuses(home: Path) -> None:
    with narval.open(home) as agent:
        done(agent, "keep", "Read")
        assert [error.attributes["type"] for error in agent.memory("error")] == ["refused-by-rule"]


@pytest.mark.parametrize("name", ["Read", "Import"])
def test_the_check_knows_what_a_dataflow_reads_from_files(home: Path, name: str) -> None:
    (call,) = (one for one in Told(home).reach.calls_of(Told(home).definition(f"w.{name}")))
    assert {"file", "secret:health"} <= frozenset().union(*(part.all for part in call.parts))
