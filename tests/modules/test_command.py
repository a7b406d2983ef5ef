"""Commands: words by place, what is refused, bounds, and that all a program began ends with it."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from narval.core.source.text import Source
from narval.files.settings import FILE, parse_settings
from tests.acceptance.home import make, until
from tests.modules.homes import answer, asking
from tests.programs import is_at_work

WORDS = "import sys; print(*map(repr, sys.argv[1:]))"
HOSTILE = "a b; $(touch x) `id` &amp;&amp; * \" ' \\ &#10; {} -rf"


def table(run: list[str], more: str = "") -> str:
    return f"[commands.c]\nrun = {run!r}\n{more}\n"


def said(folder: Path, settings: str, arguments: str) -> str:
    """What a command gives, or the type and text of its error."""
    with asking(folder, settings) as agent:
        found = answer(agent, "command.run", f"<command name='c'>{arguments}</command>")
    return f"{found.attributes['type']}: {found.text}" if found.name == "error" else found.text


def arguments(*words: str) -> str:
    return "".join(f"<argument>{word}</argument>" for word in words)


def test_each_argument_is_one_word_whatever_it_holds(tmp_path: Path) -> None:
    run = [sys.executable, "-c", WORDS, "first"]
    found = said(tmp_path, table(run), arguments(HOSTILE, "", "é"))
    assert found == repr("first") + " " + repr("a b; $(touch x) `id` && * \" ' \\ \n {} -rf") + " '' 'é'"
    assert not (tmp_path / "x").exists()


def test_an_argument_stands_where_the_settings_have_a_place_for_it(tmp_path: Path) -> None:
    run = [sys.executable, "-c", WORDS, "--title={}", "{}", "end"]
    assert said(tmp_path, table(run), arguments("-x", "two")) == "'--title=-x' 'two' 'end'"
    assert "expected 2 arguments, found 1" in said(tmp_path, table(run), arguments("one"))


def test_what_looks_like_an_option_is_refused_or_guarded(tmp_path: Path) -> None:
    run = [sys.executable, "-c", WORDS]
    refused = said(tmp_path, table(run), arguments("-rf"))
    assert refused.startswith("bad-command: ")
    assert "found '-rf'" in refused
    assert said(tmp_path, table([*run, "--"]), arguments("-rf")) == "'--' '-rf'"
    assert said(tmp_path, table(run, "dashes = true"), arguments("-rf")) == "'-rf'"
    within = said(tmp_path, table([*run, "{}.pdf"]), arguments("-o/tmp/x"))
    assert within.startswith("bad-command: ")
    assert said(tmp_path, table([*run, "-n{}"]), arguments("-3")) == "'-n-3'"


def test_a_program_reads_the_input_and_sees_a_small_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_SECRET", "sesame")
    (tmp_path / "in").mkdir()
    settings = table(["/bin/sh", "-c", "cat; env; pwd"], 'folder = "in"\nenvironment = { MODE = "dark" }')
    found = said(tmp_path, settings, "<input>so &lt;b&gt;\n</input>")
    assert found.startswith("so <b>\n")
    assert "MODE=dark" in found
    assert f"NARVAL_HOME={tmp_path}" in found
    assert found.endswith(str(tmp_path / "in"))
    assert "sesame" not in found


def test_what_is_printed_is_bounded_and_made_fit(tmp_path: Path) -> None:
    flood = table([sys.executable, "-c", "print('x' * 3_000_000)"], 'bytes = "1K"')
    with asking(tmp_path, flood) as agent:
        found = answer(agent, "command.run", "<command name='c'/>")
    assert (found.attributes["cut"], found.text) == ("yes", "x" * 1024)
    odd = table(["/bin/sh", "-c", r"printf 'a\033[2J\377\n\n'"])
    assert said(tmp_path, odd, "") == "a\ufffd[2J\ufffd"


@pytest.mark.parametrize(
    ("run", "more", "expected"),
    [
        (["/bin/sh", "-c", "echo so >&2; exit 3"], "", "[commands.c]: /bin/sh ended with status 3: so"),
        (["/bin/sh", "-c", "echo so; exit 1"], "statuses = [0, 1]", "so"),
        (["/bin/sh", "-c", "kill -9 $$"], "", "was ended by signal 9"),
        (["no-such-program"], "", "no-program: [commands.c]: cannot run no-such-program"),
        (["/bin/sleep", "60"], "seconds = 0.2", "too-slow: [commands.c]: /bin/sleep took more than 0.2 s"),
        (["/bin/echo"], 'folder = "gone"', "there is no such folder"),
        (["/bin/echo", "<a n='1'/>"], 'output = "xml"', ""),
        (["/bin/echo", "<start-plan recipe='a.b'/>"], 'output = "xml"', "bad-output: [commands.c]"),
        (["/bin/echo", "<memory><a/><quit/></memory>"], 'output = "xml"', "bad-output"),
        (["/bin/echo", "<plan/>"], 'output = "xml"', "bad-output"),
        (["/bin/echo", "<a"], 'output = "xml"', "bad-output: [commands.c]: expected XML"),
    ],
)  # fmt: skip
def test_how_a_program_ends_is_told(tmp_path: Path, run: list[str], more: str, expected: str) -> None:
    assert expected in said(tmp_path, table(run, more), "")


def test_a_program_may_print_elements(tmp_path: Path) -> None:
    settings = table(["/bin/echo", "<memory><w n='1'/><w n='2'/></memory>"], 'output = "xml"')
    with asking(tmp_path, settings) as agent:
        answer(agent, "command.run", "<command name='c'/>")
        assert [element.attributes["n"] for element in agent.memory("w")] == ["1", "2"]


def test_no_element_says_which_program_runs(tmp_path: Path) -> None:
    with asking(tmp_path, table(["/bin/echo"])) as agent:
        found = answer(agent, "command.run", "<command name='d' run='/bin/sh'/>")
        assert found.attributes["type"] == "no-such-service"
        assert "expected a table [commands.d] in etc/narval.toml, where there is c" in found.text
        found = answer(agent, "command.run", "<command name='c'><run>/bin/sh</run></command>")
        assert "expected argument, and one input, in a command, found <run>" in found.text


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("", 'commands.c: expected run = ["program", "word"]'),
        ("run = 'echo x'", "a list of words"),
        ("run = []", "a list of words"),
        ("run = ['{}']", "whose first is the program"),
        ("run = ['a', '{}{}']", "one {} at most"),
        ("run = ['a']\nstatuses = [true]", "a list of statuses"),
        ("run = ['a']\nenvironment = { 'a b' = '1' }", "variables and their texts"),
        ("run = ['a']\nshell = true", "unknown setting 'commands.c.shell'"),
    ],
)
def test_faults_of_the_settings_are_told(line: str, fault: str) -> None:
    _, faults = parse_settings(Source(FILE, f"[commands.c]\n{line}\n".encode()))
    assert fault in str(faults[0])


# --- its end ------------------------------------------------------------------------------------------------

TREE = ["/bin/sh", "-c", "trap '' TERM; sleep 300 & echo $! >pids; echo $$ >>pids; wait; sleep 300"]
RECIPE = """<recipe group="w" name="r" start_step="a" end_step="a">
<step id="a" type="action" target="command.run" on-restart="error" {more}>
<arguments><command name="c"/></arguments></step></recipe>"""


def has_begun(folder: Path) -> bool:
    file = folder / "pids"
    return file.exists() and file.read_text().count("\n") == 2


def pids(folder: Path) -> list[int]:
    until(lambda: has_begun(folder), "two programs")
    return list(map(int, (folder / "pids").read_text().split()))


def gone(pids: list[int]) -> bool:
    return not any(map(is_at_work, pids))


def test_all_that_a_program_has_begun_ends_with_its_time(tmp_path: Path) -> None:
    for seconds in (0.5, 5.0, 50.0):  # more if it had no time to begin them
        assert "too-slow" in said(tmp_path, table(TREE, f"seconds = {seconds}"), "")
        if has_begun(tmp_path):
            break
    assert gone(pids(tmp_path))


def test_what_a_program_leaves_running_ends_with_it(tmp_path: Path) -> None:
    leaving = ["/bin/sh", "-c", "sleep 300 & echo $! >pids; echo $$ >>pids; echo done"]
    began = time.monotonic()
    assert said(tmp_path, table(leaving), "") == "done"
    assert time.monotonic() - began < 30
    assert gone(pids(tmp_path))


@pytest.mark.parametrize("way", ["cancel", "timeout", "stop", "kill"])
def test_it_ends_with_its_run_its_step_and_the_daemon(tmp_path: Path, way: str) -> None:
    more = 'timeout="3"' if way == "timeout" else ""  # more than a busy machine takes to begin them
    home = make(
        tmp_path / "home", recipes=RECIPE.format(more=more), settings=f"stop_grace = 0\n{table(TREE)}"
    )
    with home.running() as daemon:
        home("start", "w.r")
        found = pids(home.home)
        assert way == "timeout" or all(map(is_at_work, found))
        if way == "cancel":
            (run,) = home.ask("runs")
            assert home("cancel", str(run["eid"])).returncode == 0
        elif way != "timeout":
            os.kill(daemon.pid, signal.SIGTERM if way == "stop" else signal.SIGKILL)
        until(lambda: gone(found), "the end of all programs")
