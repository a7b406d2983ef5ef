"""The command line: help, exit status, streams, and the modules that a start imports."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from narval.ask.operations import OPERATIONS
from narval.files.new_home import create_home
from narval.surfaces.cli import COMMANDS, GROUPS, main
from narval.surfaces.cli.command import CommandGroup
from tests.house.operations_page import all_commands, of_commands
from tests.surfaces.cli.command_line import NAME, daemon, data, narval, program, run_of, separately, well
from tests.surfaces.cli.terminal import on_a_terminal

SCHEMA = """\
<element name="letter" xmlns="http://relaxng.org/ns/structure/1.0"><attribute name="to"/></element>
"""

# --- help -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, _ in all_commands()])
def test_every_command_explains_itself_with_an_example(name: str) -> None:
    command = dict(all_commands())[name]
    result = CliRunner().invoke(main, [*name.split(), "--help"])
    assert result.exit_code == 0
    assert "--home DIR" in result.output
    assert "--json" in result.output
    example = result.output.partition("Example")[2]
    assert f"narval {name}" in example
    for line in example.splitlines()[1:]:
        words = shlex.split(line)
        assert "narval" in words
        given = words[words.index("narval") + 1 :]
        below = command.commands.values() if isinstance(command, CommandGroup) else ()
        known = {name for each in (command, *below) for option in each.params for name in option.opts}
        assert {word for word in given if word.startswith("--")} <= known


def test_help_lists_every_command_below_a_heading_with_one_whole_sentence() -> None:
    groups = CliRunner().invoke(main, ["--help"]).output.split("\n\n")[-len(GROUPS) :]
    rows = [group.splitlines() for group in groups]
    assert [row[0] for row in rows] == [f"{heading}:" for heading in GROUPS]
    lines = [line for row in rows for line in row[1:]]
    assert [line.split()[0] for line in lines] == list(COMMANDS)
    assert all(line.endswith(".") and not line.endswith("..") for line in lines)
    assert len({line.index(line.split(maxsplit=1)[1]) for line in lines}) == 1, "they are in the same columns"
    summaries = {name: sentence for group in GROUPS.values() for name, sentence in group.items()}
    assert {name: command.get_short_help_str(200) for name, command in COMMANDS.items()} == summaries


def test_every_operation_is_asked_by_a_command_but_for_what_only_programs_ask_of_a_process() -> None:
    by_programs = {"execute_token", "finalize", "listen", "unlisten", "reevaluate", "retry_arc_token"}
    by_programs |= {"simulate", "scenarios", "explore", "explored", "trial"}  # commands do this themselves
    by_programs |= {"try_on_past", "job", "jobs", "end_job"}  # simulate --since plays it, and waits for it
    by_programs |= {"examples", "example", "take_example"}  # take reads what ships, and copies it itself
    by_programs |= {"runs_about"}  # pages do, beside their rows
    by_programs |= {"reach"}  # check --trust reads the files itself
    by_programs |= {"take_hook", "note_refused"}  # a program elsewhere does, through the pages
    by_programs |= {"callers", "call_offered", "offered_run"}  # a program elsewhere does, by HTTP
    by_programs |= {"ask_for_peer", "exchange", "note_link"}  # a peer does, through the listener of links
    by_programs |= {
        "client_tools",
        "use_tool",
        "client_run",
        "cancel_call",
        "client_resource",
    }  # narval mcp --client does
    by_programs |= {
        "draft",
        "go_on_drafting",
        "end_drafting",
        "drawn_proposal",
        "simulate_migration",
        "migration_plan",
    }  # pages do; propose drafts it itself, and migrate plays it itself
    by_programs |= {"check", "propose"}  # assistants do, as tools; check reads the files itself
    by_programs |= {"chat_take", "chat_inbox", "chat_reply", "chat_element", "chat_state"}
    by_programs |= {
        "chat_outgoing",
        "chat_begun",
        "chat_sent",
        "chat_unsent",
        "chat_asked",
    }  # narval chat does
    by_programs |= {"flow_results", "record_flow_results"}  # a dataflow in the foreground does
    by_programs |= {"vouch"}  # what makes a login, a token or a code beside the daemon does
    assert set(OPERATIONS) - {operation for _, operation in of_commands()} == by_programs


SEEN_AS = {"work", "work show", "work log"}
"""Commands that alter nothing, and show what the person may see in whose name they are given."""

IN_NOBODYS_NAME = {"keep_store"}
"""Operations that write, and that nobody is named for: a copy of what the daemon holds."""


def test_a_command_has_as_exactly_if_an_operation_that_it_asks_alters_something() -> None:
    words_of: dict[str, set[str]] = {}
    for by, word in of_commands():
        words_of.setdefault(by, set()).add(word)
    for name, command in all_commands():
        words = words_of.get(name, set())
        asked = {OPERATIONS[word].scope for word in words & set(OPERATIONS) - IN_NOBODYS_NAME}
        has = any(option.name == "acting_as" for option in command.params)
        assert has is command.alters is (name in SEEN_AS or bool(asked - {"read"})), name


def test_version_is_said() -> None:
    assert re.fullmatch(r"narval \d+\.\d+\.\d+\n", CliRunner().invoke(main, ["--version"]).output)


@pytest.mark.parametrize(("columns", "widest"), [("60", 58), ("200", 78), ("0", 78), ("20", 50)])
def test_help_is_as_wide_as_the_terminal_within_bounds(columns: str, widest: int) -> None:
    lines = CliRunner().invoke(main, ["--help"], env={"COLUMNS": columns}).output.splitlines()
    assert widest - 8 < max(map(len, lines)) <= widest


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete_commands(shell: str) -> None:
    environment = {**os.environ, "_NARVAL_COMPLETE": f"{shell}_source"}
    done = subprocess.run([sys.executable, "-m", "narval"], capture_output=True, env=environment, check=False)
    assert b"_NARVAL_COMPLETE" in done.stdout


# --- exit status ----------------------------------------------------------------------------------------


HOMELESS = ("init", "automaton", "dataflow", "completion")
"""Commands that need no home."""


@pytest.mark.parametrize(
    "command",
    [command for command in COMMANDS.values() if command.name not in HOMELESS],
    ids=lambda one: one.name,
)
def test_without_a_home_every_command_says_how_to_make_one(command: click.Command, tmp_path: Path) -> None:
    given = {
        "show": ["1"],
        "history": ["1"],
        "why": ["1"],
        "part": ["1", "a"],
        "timeline": ["1"],
        "element": ["1"],
        "cancel": ["1"],
        "add": ["-"],
        "send": ["ada", "-"],
        "outdate": ["1"],
        "trust": ["1"],
        "withdraw": ["1", "--dry-run"],
        "confirm": ["1"],
        "undo": ["1", "--reason", "x"],
        "start": ["a.b"],
        "tell": ["a.b"],
        "propose": ["note my bills"],
        "accept": ["idea"],
        "edit": ["a.b"],
    } | {
        "signal": ["1", "go"],
        "remind": ["in 2h: the oven"],
        "retry": ["1"],
        "renew": ["1"],
        "migrate": ["1"],
        "complete": ["1", "node"],
        "backtrack": ["1", "node"],
        "rerun": ["1", "node"],
        "tokens": ["1"],
        "environment": ["1"],
        "take": ["mail"],
        "backup": ["home.db"],
        "restore": ["home.db"],
    }
    nowhere = tmp_path / "nowhere"
    result = narval(nowhere, command.name, *given.get(str(command.name), []))
    assert result.exit_code == 3
    assert f"narval init {nowhere}" in result.stderr
    assert not nowhere.exists()


def test_a_refused_element_is_named_by_file_line_and_column(home: Path, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.xml", tmp_path / "bad.xml"
    good.write_text("<a/>")
    bad.write_text("<a>\n  <b></a>")
    for files in ([bad], [good, bad]):
        result = narval(home, "add", *files)
        assert result.exit_code == 1
        assert f"{bad}:2:" in result.stderr
        assert result.stdout == ""
    assert narval(home, "memory", "a").exit_code == 1
    result = narval(home, "start", "demo.greet", bad)
    assert f"{bad}:2:" in result.stderr
    assert data(home, "runs") == []


def test_adding_nothing_prints_nothing(home: Path) -> None:
    assert well(home, "add", "-", given="<memory/>") == ""
    mistaken = narval(home, "add", "<letter/>")
    assert (mistaken.exit_code, "or - for standard input, got XML: echo" in mistaken.stderr) == (2, True)
    assert data(home, "add", "-", given="<memory/>") == {"eids": []}


def test_N7_a_refusal_by_a_schema_is_told_like_other_faults(home: Path) -> None:
    (home / "etc" / "schemas").mkdir()
    (home / "etc" / "schemas" / "letter.rng").write_text(SCHEMA)
    result = narval(home, "add", "-", given="<letter/>")
    assert result.exit_code == 1
    assert result.stderr.startswith("narval: <stdin>:1:1: refused by its schema: ")
    several = "\n<memory>\n  <note\n    n='1'/>\n  <letter/>\n</memory>"
    for asked in (("add", "-"), ("start", "demo.greet", "-")):
        result = narval(home, *asked, given=several)
        assert result.stderr.startswith("narval: <stdin>:5:3: refused by its schema: <letter> is not valid")
    assert well(home, "add", "-", given="<letter to='ann'/>")


def test_what_is_too_large_is_refused_before_it_is_read_to_its_end(home: Path) -> None:
    done = subprocess.run(
        f"head -c 40000000 /dev/zero | {shlex.join(program(home, 'add', '-'))}",
        shell=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert b"<stdin>: expected at most" in done.stderr


@pytest.mark.parametrize("how", ["option before", "option after", "environment"])
def test_the_home_is_chosen_by_option_or_environment(home: Path, how: str) -> None:
    arguments = {
        "option before": ["--home", str(home), "status"],
        "option after": ["status", "--home", str(home)],
    }
    environment = {"NARVAL_HOME": str(home if how == "environment" else home.parent)}
    given = [*arguments.get(how, ["status"]), "--json"]
    result = CliRunner().invoke(main, given, env=environment)
    assert json.loads(result.stdout)["home"] == str(home)


def test_json_may_be_asked_for_before_the_command(home: Path) -> None:
    result = CliRunner().invoke(main, ["--json", "runs", "--home", str(home)])
    assert json.loads(result.stdout) == []


# --- what is written ------------------------------------------------------------------------------------


def test_output_is_utf8_whatever_the_locale(home: Path) -> None:
    well(home, "add", "-", given="<letter>né 漢字</letter>")
    with daemon(home):
        for language in ("C", "en_US.ISO-8859-1"):
            environment = {**os.environ, "LC_ALL": language, "LANG": language, "PYTHONIOENCODING": "ascii"}
            ran = partial(subprocess.run, capture_output=True, check=False, env=environment)
            done = ran(program(home, "memory", "letter", "--json"))
            assert "né 漢字" in json.loads(done.stdout)[0]["xml"]
            assert "né 漢字" in ran(program(home, "memory", "--xml")).stdout.decode()
            assert ran(program(home, "memory")).returncode == 0


def test_a_reader_that_goes_away_is_no_error_to_see(home: Path) -> None:
    elements = "".join(f"<a n='{number}'/>" for number in range(3000))
    well(home, "add", "-", given=f"<memory>{elements}</memory>")
    command = f"{shlex.join(program(home, 'memory', 'a'))} | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, check=False)
    assert done.stdout.split()[0] == b"eid"
    assert b"Traceback" not in done.stderr


def in_a_shell(home: Path, text: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A command line of a shell in which {} stands for narval's; its exit status is that of narval."""
    written = text.replace("{}", shlex.join(program(home, *arguments)))
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", written], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    return done


@pytest.mark.parametrize(
    "arguments", [("memory", "a"), ("memory", "--xml"), ("memory", "--json"), ("history", "1")], ids=str
)
def test_a_reader_that_has_gone_ends_a_command_well(home: Path, arguments: tuple[str, ...]) -> None:
    narval(home, "start", "demo.fail", "--wait")
    run = str(run_of(home, "demo.fail"))
    elements = "".join(f"<a n='{number}'/>" for number in range(2000))
    well(home, "add", "-", given=f"<memory>{elements}</memory>")
    given = [run if argument == "1" else argument for argument in arguments]
    done = in_a_shell(home, "{} | true", *given)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_run_is_started_even_if_nobody_reads_its_number(home: Path) -> None:
    done = in_a_shell(home, "{} | true", "start", "demo.greet")
    assert (done.returncode, done.stderr) == (0, "")
    (run,) = data(home, "runs")
    assert (run["state"], run["waits_for"]) == ("ready", "nothing"), "a run that is ready waits for nobody"


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ("{} >&-", ("memory",), "narval: expected standard output to be open"),
        ("{} <&- >&-", ("memory",), "narval: expected standard output to be open"),
        ("{} <&-", ("add", "-"), "narval: <stdin>:1:1: not well-formed XML"),
        ("{} >/dev/full", ("status",), "narval: No space left on device"),
        ("{} >/dev/full", ("status", "--json"), "narval: No space left on device"),
        ("{} >/dev/full", ("--help",), "narval: No space left on device"),
    ],
)
def test_a_stream_that_cannot_be_used_is_said_in_one_sentence(
    home: Path, text: str, arguments: tuple[str, ...], said: str
) -> None:
    done = in_a_shell(home, text, *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith(said)
    assert len(done.stderr.splitlines()) == 1


def test_without_a_stream_for_errors_there_is_an_exit_status(home: Path) -> None:
    assert in_a_shell(home, "{} 2>&-", "show", 999).returncode == 1
    assert in_a_shell(home, "{} <&- 2>&-", "runs", "--json").stdout == "[]\n"


def test_an_element_cannot_command_the_terminal(home: Path) -> None:
    well(home, "add", "-", given="<letter subject='&#x9b;2J &#x202e;evil'/>")
    with daemon(home):
        for arguments in (["memory", "letter"], ["memory", "--xml"], ["memory", "letter", "--json"]):
            assert not set("\x9b\u202e") & set(on_a_terminal(home, *arguments))
            assert "\x9b" not in separately(home, *arguments).stdout.decode()


def test_a_graph_is_drawn_by_graphviz_where_it_is_installed(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    well(home, "start", "demo.greet", "-", "--wait", given=NAME)
    run, drawing, programs = run_of(home, "demo.greet"), tmp_path / "run.svg", tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    missing = narval(home, "show", run, "--svg", drawing)
    assert missing.exit_code == 1
    assert "install" in missing.stderr
    dot = programs / "dot"
    dot.write_text('#!/bin/sh\n[ "$1" = -Tsvg ] && while read -r line; do echo "<!-- $line -->"; done\n')
    dot.chmod(0o755)
    well(home, "show", run, "--svg", drawing)
    assert "digraph" in drawing.read_text()
    dot.write_text("#!/bin/sh\necho 'syntax error in line 1' >&2\nexit 1\n")
    refused = narval(home, "show", run, "--svg", drawing)
    assert refused.exit_code == 1
    assert "syntax error in line 1" in refused.stderr


# --- lightness ------------------------------------------------------------------------------------------


_WATCHED = """
import sys
from narval.surfaces.cli import main

def own():
    return [name for name in sys.modules if name.startswith("narval.")]

main(["--help"], standalone_mode=False)
helped = own()
for_asking = sorted({"msgpack", "shutil", "socket"} & set(sys.modules))
print("---")
main(["--home", sys.argv[1], "runs"], standalone_mode=False)
heavy = {"json", "pathlib", "dataclasses", "shutil", "narval.core.source.text"}
heavy |= {"asyncio", "lxml", "elementpath", "rich", "psutil", "msgspec", "tempfile", "hashlib", "logging"}
heavy |= {"tomllib"}  # the home names no zone
print(len(helped), len(own()), for_asking + sorted(heavy & set(sys.modules)), file=sys.stderr)
"""


_AT_WORK = """
import sys
from narval.surfaces.cli import main
main(["--home", sys.argv[1], "run", "--until-idle"], standalone_mode=False)
needless = {"elementpath", "rich", "email", "imap_tools", "feedparser", "httpx2"}
needless |= {f"narval.surfaces.cli.{name}" for name in ("automaton", "homes", "memory", "simulate", "tokens")}
needless |= {"psycopg", "distributed", "narval.daemon.fleet", "narval.calls.cluster"}
needless |= {f"narval.store.postgresql.{name}" for name in ("leases", "postgresql", "published")}
needless |= {"narval.daemon.messages.other_daemons"}
print(sorted(needless & set(sys.modules)), file=sys.stderr)
"""


def test_a_daemon_starts_without_what_it_may_never_need(tmp_path: Path) -> None:
    home = create_home(tmp_path / "home", bare=True)
    done = subprocess.run(
        [sys.executable, "-c", _AT_WORK, str(home.path)], capture_output=True, text=True, check=False
    )
    assert done.stderr == "[]\n"
    assert " is ready: " in done.stdout


def test_help_and_asking_a_daemon_import_little(home: Path) -> None:
    with daemon(home):
        narval(home, "start", "demo.await")
        done = subprocess.run([sys.executable, "-c", _WATCHED, str(home)], capture_output=True, check=False)
    assert b"demo.await" in done.stdout.partition(b"---")[2]
    of_help, of_asking, heavy = done.stderr.decode().split(maxsplit=2)
    assert (int(of_help) <= 13, int(of_asking) <= 32, heavy) == (True, True, "[]\n"), done.stderr


_ASKED = """
import sys
from narval.surfaces.cli import main
main(["--home", sys.argv[1], sys.argv[2]], standalone_mode=False)
needless = {"json", "locale", "selectors", "socket", "zoneinfo"}
print(sorted(needless & set(sys.modules)), file=sys.stderr)
"""


def test_what_asks_a_daemon_imports_neither_json_nor_tables_of_constants(home: Path) -> None:
    with daemon(home):
        for asked in ("status", "runs", "work"):
            done = subprocess.run(
                [sys.executable, "-c", _ASKED, str(home), asked], capture_output=True, check=True
            )
            assert (asked, done.stderr.splitlines()[-1]) == (asked, b"[]")


_LOGGED = """
import sys
from narval.surfaces.cli import main
main(["--home", sys.argv[1], "log"], standalone_mode=False)
print(*(name for name in sys.modules if name.startswith(("narval.daemon", "narval.store", "lxml"))))
"""


def test_the_log_is_read_without_the_home_where_no_daemon_runs(tmp_path: Path) -> None:
    home = create_home(tmp_path / "home", bare=True).path
    done = subprocess.run([sys.executable, "-c", _LOGGED, str(home)], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"\n", b"the log is empty\n")
    assert list((home / "var").iterdir()) == []


_ENDING = """
import atexit, sys, threading
from narval.__main__ import main
atexit.register(print, "registered", flush=True)
{}
sys.argv = ["narval", "--version"]
main()
"""
_HIDDEN = "del sys.modules['atexit']"
_THREAD = (
    "threading.Thread(target=lambda: threading.main_thread().join() or print('thread', flush=True)).start()"
)


@pytest.mark.parametrize(
    ("before", "after"),
    [(_HIDDEN, []), ("", ["registered"]), (f"{_HIDDEN}; {_THREAD}", ["thread", "registered"])],
)
def test_a_command_ends_at_once_unless_something_is_left_to_do(before: str, after: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ENDING.format(before)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[1:] == after


def test_a_command_whose_last_words_cannot_be_written_says_so() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "narval", "--version"], stdout=full, check=False)
    assert done.returncode != 0


@pytest.mark.parametrize(
    "arguments", [["fro\ab"], ["show", "1", "x\ay"], ["runs", "--li\am"], ["runs", "--limit", "\a"]]
)
def test_an_argument_that_is_refused_is_repeated_without_control_characters(
    home: Path, arguments: list[str]
) -> None:
    result = narval(home, *arguments)
    assert result.exit_code == 2
    assert "\\x07" in result.stderr
    assert "\a" not in result.stderr


def test_the_check_of_a_home_without_a_daemon_says_so(home: Path) -> None:
    done = narval(home, "status", "--check")
    assert (done.exit_code, done.stdout) == (1, f"not well: no daemon is running: narval --home {home} run\n")
    assert well(home, "status", "--metrics").endswith("narval_up 0.0\n# EOF\n")
    assert narval(home, "status", "--metrics", "--check").exit_code == 2
