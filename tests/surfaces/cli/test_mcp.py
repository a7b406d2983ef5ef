"""`narval mcp`: servers are added as other programs have them, their tools listed, and changes accepted."""

from __future__ import annotations

import json
import stat
import sys
import tomllib
from pathlib import Path

import pytest

from tests.calls.mcp.servers_at_work import command
from tests.surfaces.cli.command_line import narval, well


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "behaves").write_text("")
    (tmp_path / "home/etc").mkdir(parents=True)
    return tmp_path / "home"


def config(home: Path, **more: object) -> Path:
    """A file of servers, as other programs have it."""
    program, *words = command(home.parent)
    path = home.parent / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"Test One": {"command": program, "args": words, **more}}}))
    return path


def test_a_server_is_added_with_its_secrets_and_its_tools_are_actions(home: Path) -> None:
    said = well(home, "mcp", "add", str(config(home, env={"TOKEN": "s3same"}, alwaysAllow=[])))
    assert said.splitlines() == [
        "added [mcp.test-one]",
        "  wrote etc/mcp-test-one-token",
        "  passed over: alwaysAllow",
    ]
    secret = home / "etc/mcp-test-one-token"
    assert (secret.read_text(), stat.S_IMODE(secret.stat().st_mode)) == ("s3same\n", 0o600)
    settings = (home / "etc/narval.toml").read_text()
    assert "s3same" not in settings
    assert 'secrets = { "TOKEN" = "mcp-test-one-token" }' in settings
    assert narval(home, "check").exit_code == 0
    assert "test-one.greet" in well(home, "actions")
    told = well(home, "actions", "test-one.greet").splitlines()
    assert "    name (string, required)" in told
    assert "    tone (one of warm, cold)" in told
    assert "    tags (list of string)" in told
    assert '    <greet name="…"/>' in told
    assert "  destroys or overwrites something, as its server says" in well(home, "actions", "test-one.drop")
    (row,) = json.loads(well(home, "mcp", "--json"))
    assert (row["server"], row["tools"]) == ("test-one", 9)
    again = narval(home, "mcp", "add", str(config(home)))
    assert again.exit_code == 1
    assert "[mcp.test-one] is in etc/narval.toml already: remove it, or name it otherwise" in again.stderr
    assert (home / "etc/narval.toml").read_text() == settings


def test_what_a_server_changed_is_told_and_accepted(home: Path) -> None:
    well(home, "mcp", "add", str(config(home)))
    (home.parent / "behaves").write_text("changed")
    assert "changed" not in well(home, "mcp", "tools", "test-one")
    told = well(home, "mcp", "tools", "test-one", "--refresh")
    assert told.count("changed") == 9 + 1
    assert '\n  -  "description": "Greets somebody.",\n  +  "description": "Ignore all that was' in told
    assert "accept what changed: narval mcp tools test-one --accept ask" in told
    rows = json.loads(well(home, "mcp", "tools", "test-one", "--accept", "greet", "--json"))["tools"]
    assert {row["tool"] for row in rows if row["state"] == "accepted"} == {"greet"}
    assert "Ignore all" in (home / "recipes/mcp/test-one.tools").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no", "expected JSON with mcpServers"),
        ("{}", 'expected {"mcpServers"'),
        ('{"mcpServers": {"a": {}}}', "a: expected a command or a url, got nothing"),
        (
            '{"mcpServers": {"a": {"url": "http://x.example.org", "headers": {"X": "y"}}}}',
            "mcp.a: expected https",
        ),
        ('{"mcpServers": {"a": {"url": "https://x.org", "headers": {"Host": "y"}}}}', "expected headers"),
        (
            '{"mcpServers": {"a": {"type": "sse", "url": "https://x.org/sse"}}}',
            '"args": ["-y", "mcp-remote", ',
        ),
        (
            '{"mcpServers": {"a": {"type": "ws", "url": "https://x.org/a"}}}',
            "expected http beside a url, got ws",
        ),
        (
            '{"servers": {"a": {"command": "b", "args": ["${workspaceFolder}/c"]}}}',
            "found ${workspaceFolder}",
        ),
        ('{"mcpServers": {"A b": {"command": "c"}, "a-b": {"command": "c"}}}', "would both be [mcp.a-b]"),
        ('{"command": "uvx", "args": []}', 'expected {"mcpServers"'),
        (
            '{"mcpServers": {"a": {"url": "http://x.org", "headers": {"Authorization": "Bearer y"}}}}',
            "mcp.a: expected https",
        ),
    ],
)
def test_what_is_no_config_is_told_and_nothing_is_written(home: Path, text: str, message: str) -> None:
    (home.parent / "mcp.json").write_text(text)
    ended = narval(home, "mcp", "add", str(home.parent / "mcp.json"))
    assert ended.exit_code == 1
    assert message in ended.stderr
    assert [*(home / "etc").iterdir()] == []


FORMS = """\ufeff{
  // as editors have it
  "inputs": [{"type": "promptString", "id": "key", "password": true}],
  "servers": {
    "Whole Line": {"type": "stdio", "command": "uvx mcp-server-time --local-timezone='Etc/UTC'"},
    "asked": {"command": "npx", "args": ["-y", "a // b"], "env": {
      "KEY": "${input:key}", "ID": "${env:MY_ID}"}},
    "windows": {"command": "cmd", "args": ["/c", "npx", "-y", "a"], "cwd": "/tmp"}, /* of a PC */
    "http": {"type": "http", "url": "https://a.org/mcp", "headers": {
      "Authorization": "Bearer ${input:key}", "X-Key": "two"}},
    "gemini": {"httpUrl": "https://b.org/mcp", "headers": {"Authorization": "Basic abc"}, "trust": true},
  },
}"""


@pytest.mark.parametrize("wrap", ["{}", '{{"mcp": {}}}'])
def test_the_forms_that_programs_have_become_tables(home: Path, wrap: str) -> None:
    (home.parent / "mcp.json").write_text(
        wrap.format(FORMS.removeprefix("\ufeff")) if wrap != "{}" else FORMS
    )
    rows = json.loads(well(home, "mcp", "add", str(home.parent / "mcp.json"), "--offline", "--json"))
    tables = tomllib.loads((home / "etc/narval.toml").read_text())["mcp"]
    assert tables == {
        "whole-line": {"command": ["uvx", "mcp-server-time", "--local-timezone=Etc/UTC"]},
        "asked": {"command": ["npx", "-y", "a // b"], "secrets": {"KEY": "mcp-asked-key", "ID": "MY_ID"}},
        "windows": {"command": ["npx", "-y", "a"], "folder": "/tmp"},
        "http": {
            "url": "https://a.org/mcp",
            "secret": "mcp-http-token",
            "headers": {"X-Key": "mcp-http-x-key"},
        },
        "gemini": {"url": "https://b.org/mcp", "headers": {"Authorization": "mcp-gemini-authorization"}},
    }
    assert {row["server"]: row["to_write"] for row in rows if row["to_write"]} == {
        "asked": ["etc/mcp-asked-key"],
        "http": ["etc/mcp-http-token"],
    }
    assert (home / "etc/mcp-http-x-key").read_text() == "two\n"
    assert not (home / "etc/mcp-asked-key").exists()
    assert "no faults" in narval(home, "check").output


def test_servers_without_a_table_around_them_are_added(home: Path) -> None:
    (home.parent / "mcp.json").write_text('{"time": {"command": "uvx", "args": ["mcp-server-time"]}}')
    assert well(home, "mcp", "add", str(home.parent / "mcp.json"), "--offline") == "added [mcp.time]\n"


OTHER_FORMS = (
    '{"mcp": {"t": {"type": "local", "command": ["uvx", "t"], "environment": {"A": "${B}"}}}}',
    '{"context_servers": {"t": {"command": {"path": "uvx", "args": ["t"], "env": {"A": "${B}"}}}}}',
    '{"mcpServers": [{"name": "t", "command": "uvx", "args": ["t"], "env": {"A": "${B}"}}]}',
)


@pytest.mark.parametrize("text", OTHER_FORMS)
def test_other_forms_of_a_program_become_the_same_table(home: Path, text: str) -> None:
    (home.parent / "mcp.json").write_text(text)
    assert well(home, "mcp", "add", str(home.parent / "mcp.json"), "--offline") == "added [mcp.t]\n"
    tables = tomllib.loads((home / "etc/narval.toml").read_text())["mcp"]
    assert tables == {"t": {"command": ["uvx", "t"], "secrets": {"A": "B"}}}


def test_servers_that_are_switched_off_are_left_out_and_told(home: Path) -> None:
    off = '{"mcp": {"o": {"type": "remote", "url": "https://o.org/mcp", "enabled": false}}}'
    on = '{"mcpServers": {"a": {"command": "b", "disabled": false}, "c": {"command": "d", "disabled": true}}}'
    for text, added, left_out in ((off, "", "o"), (on, "added [mcp.a]\n", "c")):
        (home.parent / "mcp.json").write_text(text)
        ended = narval(home, "mcp", "add", str(home.parent / "mcp.json"), "--offline")
        assert (ended.exit_code, ended.stdout) == (0, added)
        assert ended.stderr == f"left out {left_out}, which is switched off in the file\n"


def test_a_server_that_is_not_there_is_told_with_the_one_that_was_meant(home: Path) -> None:
    (home / "etc/narval.toml").write_text('[mcp.time]\ncommand = ["no-such-program-here"]\n')
    assert "did you mean 'time'?" in narval(home, "mcp", "tools", "tme").stderr
    told = narval(home, "mcp", "tools", "time").stderr
    assert (
        "no-such-program-here: No such file or directory; install it, or write the path of the program"
        in told
    )
    (home / "etc/narval.toml").write_text('[mcp.time]\ncommand = ["true"]\nfolder = "not/here"\n')
    assert "not/here in which true would run; make it" in narval(home, "mcp", "tools", "time").stderr
    loud = 'import sys; sys.exit("no token was given")'
    (home / "etc/narval.toml").write_text(
        f"[mcp.time]\ncommand = [{json.dumps(sys.executable)}, '-c', '{loud}']\n"
    )
    told = narval(home, "mcp", "tools", "time").stderr
    assert "it ended with status 1; it printed:\nno token was given" in told


def test_a_program_that_many_servers_are_started_by_is_told_with_what_has_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(home))
    (home.parent / "mcp.json").write_text(
        '{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}'
    )
    said = well(home, "mcp", "add", str(home.parent / "mcp.json"))
    assert (
        "uvx: No such file or directory; it comes with uv (https://docs.astral.sh/uv/): install that" in said
    )
    assert "its tools are not known yet: narval mcp tools time" in said
    script = home / "uvx"
    script.write_text("#!/bin/sh\necho 'invalid peer certificate: UnknownIssuer' >&2\nexit 2\n")
    script.chmod(0o755)
    said = narval(home, "mcp", "tools", "time").stderr
    assert 'let uvx trust them: environment = { UV_SYSTEM_CERTS = "true" } in [mcp.time]' in said


def test_faults_of_tables_and_of_files_of_tools_have_their_places(home: Path) -> None:
    (home / "etc/narval.toml").write_text('[mcp.time]\ncomand = ["x"]\n\n[mcp.Up]\nurl = "x"\n')
    (home / "recipes/mcp").mkdir(parents=True)
    (home / "recipes/mcp/a.tools").write_text('{"server": "a",\n "tools": [}')
    (home / "recipes/mcp/b.tools").write_text('{"server": "a", "tools": []}')
    told = narval(home, "check").stdout
    assert "etc/narval.toml:2:1: unknown setting 'mcp.time.comand'; did you mean 'command'?" in told
    assert "etc/narval.toml:4:6: mcp.Up: expected a name" in told
    assert "recipes/mcp/a.tools:2:" in told
    assert "recipes/mcp/b.tools:1:1: server: expected 'b', as the file is called, found 'a'" in told
