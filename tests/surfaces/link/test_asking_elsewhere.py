"""`narval --peer NAME …`: a command asks the daemon of another home, with the rights that are given there."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import Result

from narval.files.outside.peers import PEERS_FILE
from tests.certificates import make_certificate
from tests.ports import free_port
from tests.surfaces.cli.command_line import begun, daemon, line_of, make_home, narval, until

TOKEN = "a-token-of-laptop"


class Pair(NamedTuple):
    """A home without a daemon, the laptop, and one that it asks, the office."""

    laptop: Path
    office: Path

    def ask(self, *arguments: object, given: str = "") -> Result:
        """A command that the laptop asks of the office."""
        return narval(self.laptop, "--peer", "office", *arguments, given=given)

    def well(self, *arguments: object, given: str = "") -> str:
        result = self.ask(*arguments, given=given)
        assert result.exit_code == 0, result.output
        return result.stdout

    def allow(self, *scopes: str) -> None:
        """Have the office let the laptop ask with these rights."""
        digest = hashlib.sha256(TOKEN.encode()).hexdigest()
        table = f'[laptop]\ntoken_sha256 = "{digest}"\nasks = {json.dumps(scopes)}\n'
        (self.office / PEERS_FILE).write_text(table)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both homes; the office has a daemon, and is served over TLS."""
    folder, port = tmp_path_factory.mktemp("pair"), free_port()
    pair = Pair(make_home(folder / "laptop"), make_home(folder / "office"))
    certificate, key = make_certificate(folder)
    listener = f'[link]\nlisten = "127.0.0.1:{port}"\ncert = "{certificate}"\nkey = "{key}"\n'
    (pair.office / "etc/narval.toml").write_text(listener)
    url, secret = f"https://127.0.0.1:{port}", pair.laptop / "etc/link-office"
    secret.write_text(TOKEN)
    secret.chmod(0o600)
    reached = f'url = "{url}"\ntoken = "link-office"\nca = "{certificate}"\n'
    (pair.laptop / PEERS_FILE).write_text(f"[office]\n{reached}[idle]\ntoken_sha256 = '{'ab' * 32}'\n")
    pair.allow("read")
    with daemon(pair.office):
        web = begun(pair.office, "web", "--port", "0")
        assert b"narval web answers at" in line_of(web)
        assert line_of(web) == f"peers ask it at {url}\n".encode()
        yield pair
        web.terminate()
        web.communicate()


def test_G39_what_is_asked_of_a_peer_is_what_its_daemon_answers(pair: Pair) -> None:
    assert json.loads(pair.well("status", "--json"))["home"] == str(pair.office)
    assert pair.well("definitions") == narval(pair.office, "definitions").stdout
    assert pair.well("memory") == narval(pair.office, "memory").stdout


def test_a_peer_may_do_what_its_table_says_and_nothing_else(pair: Pair) -> None:
    pair.allow()
    refused = pair.ask("status")
    assert refused.exit_code == 1
    assert "status needs the right to read, and the peer laptop may ask nothing there" in refused.output
    assert 'etc/peers.toml: asks = ["read"]' in refused.output
    pair.allow("read")
    refused = pair.ask("add", "-", given="<note/>")
    assert "add needs the right to write, and the peer laptop may read there" in refused.output
    pair.allow("read", "write")
    eid = int(pair.well("add", "-", given="<note about='it'/>"))
    shown = json.loads(pair.well("element", eid, "--json"))
    assert shown["labels"] == ["agent:laptop"]
    assert pair.ask("element", 99_999).exit_code == 1


def test_a_run_is_started_and_followed_to_its_end(pair: Pair) -> None:
    pair.allow("read", "write")
    run = json.loads(pair.well("start", "demo.greet", "-", "--wait", "--json", given="<name>Ann</name>"))
    assert run["phase"] == "done"
    assert "demo.greet" in pair.well("runs", "--limit", 1)
    assert pair.well("history", run["eid"]) == narval(pair.office, "history", run["eid"]).stdout
    following = begun(pair.laptop, "--peer", "office", "log", "--follow", "--lines", "0")
    pair.well("reload")
    assert line_of(following).startswith(b"moments of ")
    assert b"narval." in line_of(following)
    following.kill()
    following.communicate()


def test_the_page_that_follows_is_one_of_the_peer(pair: Pair) -> None:
    pair.allow("read", "write")
    pair.well("add", "-", given="<memory><note n='1'/><note n='2'/></memory>")
    assert "--peer office memory note --limit 1 --before" in pair.ask("memory", "note", "--limit", 1).output


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("init",), "init works on this machine alone: leave --peer out"),
        (("run",), "works on the files of a home: leave --peer out"),
        (("check",), "works on the files of a home: leave --peer out"),
        (("check", __file__), "works on the files of a home: leave --peer out"),
        (("backup", "x"), "works on the files of a home: leave --peer out"),
        (("completion", "bash"), "completion works on this machine alone"),
        (("outdate", "1", "--as", "ann"), "a peer may not act in a person's name: leave --as out"),
        (("status", "--agent", "nobody"), "there is no agent 'nobody'"),
    ],
)
def test_what_cannot_be_asked_elsewhere_says_so(pair: Pair, words: tuple[str, ...], expected: str) -> None:
    result = pair.ask(*words)
    assert result.exit_code != 0
    assert expected in " ".join(result.output.split())


def test_operations_by_which_programs_speak_for_others_are_not_for_peers(pair: Pair) -> None:
    from narval.core.errors import RequestError
    from narval.files.outside.peers import load_peers
    from narval.surfaces.link.protocol import PeerClient

    pair.allow("read", "write")
    client = PeerClient(load_peers(pair.laptop)["office"], pair.laptop)
    for method in ("ask_for_peer", "use_tool", "take_hook", "chat_link", "answer"):
        with pytest.raises(RequestError, match="another home may not "):
            client.ask(method, peer="other")
    with pytest.raises(RequestError, match="there is no operation 'limit'"):
        client.ask("limit", scope="read")


def test_a_peer_that_cannot_be_asked_is_told_in_a_sentence(pair: Pair, tmp_path: Path) -> None:
    ask = lambda name: narval(pair.laptop, "--peer", name, "status")  # noqa: E731
    assert "there is no peer 'offise' in etc/peers.toml; did you mean 'office'?" in ask("offise").output
    assert "idle cannot be asked: etc/peers.toml has no url and token of it" in ask("idle").output
    file = pair.laptop / PEERS_FILE
    before = file.read_text()
    try:
        file.write_text("".join(line for line in before.splitlines(True) if "ca =" not in line))
        result = ask("office")
        assert "the certificate of the peer office is not trusted" in result.output
        assert result.exit_code == 3
        file.write_text(re.sub(r"(127.0.0.1):\d+", rf"\1:{free_port()}", before))
        assert "the peer office cannot be reached at https://127.0.0.1:" in ask("office").output
        (pair.laptop / "etc/link-office").write_text("another\ntoken")
        file.write_text(before)
        assert ask("office").output.endswith("the secret link-office is no token, a word of ASCII\n")
        (pair.laptop / "etc/link-office").write_text("another-token")
        assert "office does not let this home in: the token is no peer's here" in ask("office").output
    finally:
        file.write_text(before)
        (pair.laptop / "etc/link-office").write_text(TOKEN)


def test_a_start_by_who_may_not_look_is_well(pair: Pair) -> None:
    pair.allow("write")
    started = pair.ask("start", "demo.fail")
    assert (started.exit_code, started.stderr, started.stdout.strip().isdecimal()) == (0, "", True)


def test_peers_and_what_they_have_complete(pair: Pair) -> None:
    from click.shell_completion import ShellComplete

    from narval.surfaces.cli import main

    def completed(words: list[str], begun: str) -> list[str]:
        complete = ShellComplete(main, {}, "narval", "_NARVAL_COMPLETE")
        return [item.value for item in complete.get_completions(["--home", str(pair.laptop), *words], begun)]

    pair.allow("read")
    assert completed(["--peer"], "") == ["office"]
    assert "demo.greet" in completed(["--peer", "office", "start"], "demo.g")


def test_the_daemon_of_a_peer_that_may_write_is_ended(pair: Pair) -> None:
    """The last of the tests with this pair."""
    pair.allow("read", "write")
    assert pair.well("stop") == "stopped\n"
    result = pair.ask("status")
    assert "the peer office cannot answer: no daemon is running there" in result.output
    assert result.exit_code == 3
    until(lambda: not (pair.office / "var/narval.sock").exists())
