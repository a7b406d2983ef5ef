"""Logins at MCP servers, as a user does them: by a command, in a browser, and then by recipes."""

from __future__ import annotations

import json
import ssl
import threading
import webbrowser
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("mcp")

import httpx2

import narval
from narval.surfaces.python.agent import Agent
from tests.calls.mcp.oauth_server import OAuthServer
from tests.certificates import make_certificate
from tests.docs.typed import blocks, commands
from tests.places import ROOT
from tests.surfaces.cli.command_line import data, well
from tests.surfaces.cli.command_line import narval as command

RECIPE = """<cookbook group="t"><recipe name="r" start_step="s" end_step="s">
<step id="s" type="action" target="tracker.echo"><arguments><echo text="again"/></arguments></step></recipe>
</cookbook>"""


@pytest.fixture
def server() -> Iterator[OAuthServer]:
    with OAuthServer().running() as running:
        yield running


def home_with(folder: Path, url: str, more: str = "") -> Path:
    home = folder / "home"
    (home / "etc").mkdir(parents=True)
    (home / "etc/narval.toml").write_text(f'[mcp.tracker]\nurl = "{url}"\n{more}')
    return home


class Browser:
    """The browser of the user, who agrees to what each address asks, if a test does not say otherwise."""

    def __init__(self) -> None:
        self.visits: list[Callable[[str], Any]] = []
        self._threads: list[threading.Thread] = []

    def open(self, url: str) -> bool:
        """Open an address, in a window of its own."""
        visit = self.visits.pop(0) if self.visits else partial(httpx2.get, follow_redirects=True)
        self._threads.append(threading.Thread(target=visit, args=(url,)))
        self._threads[-1].start()
        return True

    def close(self) -> None:
        """Read all to the end."""
        for thread in self._threads:
            thread.join()


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> Iterator[Browser]:
    opened = Browser()
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", opened.open)
    yield opened
    opened.close()


def result(agent: Agent) -> Any:
    """What a recipe gets that calls a tool of the server."""
    run = agent.start("t.r")
    agent.until_idle()
    made = [one for one in agent.memory("error | echo-result") if one.origin and one.origin.run == run]
    (element,) = made
    return element


def wanted(agent: Agent) -> list[Any]:
    """The logins that need attention."""
    return [item for item in agent.ask("attention") if item["what"] == "login"]


def test_the_how_to_goes_as_it_says(tmp_path: Path, server: OAuthServer, browser: Browser) -> None:
    page = ROOT / "docs/how-to" / "log-in-at-an-mcp-server.md"
    texts = list(blocks(page))
    named, registered = (text for language, _, text in texts if language == "toml")
    typed = [each for language, _, text in texts if language == "console" for each in commands(text)]
    home = home_with(tmp_path, server.url)
    (home / "etc/narval.toml").write_text(named.replace("https://mcp.tracker.example/mcp", server.url))
    (login, printed), *_, (of_server, _) = typed
    said = command(home, *login.split()[1:]).output
    for line in printed.splitlines():
        assert line.partition("https:")[0].partition(" for ")[0] in said, line
    helped = well(home, "mcp", "login", "--help")
    assert all(word in helped for word in of_server.split() if word.startswith("--"))
    assert (home / "var/mcp/tracker.login").exists()
    (home / "etc/tracker-secret").write_text("s")
    (home / "etc/tracker-secret").chmod(0o600)
    (home / "etc/narval.toml").write_text(registered)
    assert command(home, "check").exit_code == 0


def test_a_login_from_the_first_call_to_the_last(
    tmp_path: Path, server: OAuthServer, browser: Browser
) -> None:
    home = home_with(tmp_path, server.url)
    without = command(home, "mcp", "tools", "tracker")
    assert without.exit_code != 0
    assert "it wants a login; log in: narval mcp login tracker" in without.output
    assert not server.clients  # nobody registers without being told to

    answer = data(home, "mcp", "login", "tracker")
    assert answer["issuer"].rstrip("/") == server.base
    assert (answer["tools"], answer["renews"]) == (1, True)
    file = home / "var/mcp/tracker.login"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    token = json.loads(file.read_text())["token"]
    assert token["access_token"] not in json.dumps(answer)

    with narval.open(home) as agent:
        agent.load(RECIPE)
        assert result(agent).text == "again"
        server.is_ill = True
        server.expire()  # the server takes the token no more
        error = result(agent)
        assert (error.attributes["type"], wanted(agent)) == ("server-lost", [])
        assert "its server of logins answers 503" in error.text
        server.is_ill = False  # the token is renewed, and the call goes on
        assert result(agent).text == "again"
        assert server.grants == ["code", "refresh"]
        renewed = json.loads(file.read_text())
        file.write_text(
            json.dumps({**renewed, "expires": 1.0})
        )  # it has expired, and nobody asks to learn it
        assert result(agent).text == "again"
        assert server.grants == ["code", "refresh", "refresh"]

        server.forget()
        error = result(agent)
        assert error.attributes["type"] == "login-wanted"
        assert "the login has expired, or was withdrawn; log in: narval mcp login tracker" in error.text
        assert [(item["grave"], item["link"]) for item in wanted(agent)] == [("middle", {"page": "status"})]
        assert "narval mcp login tracker" in wanted(agent)[0]["text"]
        written = [path.read_bytes() for path in home.rglob("*") if path.is_file() and path != file]
        for secret in (token["access_token"], token["refresh_token"], renewed["token"]["refresh_token"]):
            assert not [data for data in written if secret.encode() in data]

        said = well(home, "mcp", "login", "tracker")
        assert said.endswith("logged in at tracker for use offline_access; it offers 1 tool\n")
        assert wanted(agent) == []
        assert result(agent).text == "again"
    held = json.loads(file.read_text())["token"]
    said = well(home, "mcp", "logout", "tracker")
    assert said == "logged out at tracker; its tokens are no longer valid\n"
    assert not file.exists()
    assert held["access_token"] not in server.access
    assert held["refresh_token"] not in server.renewing
    assert data(home, "mcp", "logout", "tracker")["was_logged_in"] is False


def test_a_login_that_is_refused_and_one_of_somebody_else(
    tmp_path: Path, server: OAuthServer, browser: Browser
) -> None:
    server.is_refusing = True
    statuses: list[int] = []
    fields: dict[str, str] = {}

    def visit(url: str) -> None:
        fields.update({name: values[-1] for name, values in parse_qs(urlsplit(url).query).items()})
        back = fields["redirect_uri"]
        for wrong in ({"code": "made up", "state": "made up"}, {"code": "made up"}, {"error": "no"}):
            statuses.append(httpx2.get(back, params=wrong).status_code)
        statuses.append(httpx2.get(url, follow_redirects=True).status_code)

    browser.visits.append(visit)
    home = home_with(tmp_path, server.url)
    refused = command(home, "mcp", "login", "tracker")
    browser.close()
    assert refused.exit_code != 0
    assert "the login failed: it was refused: access_denied: not " in refused.output
    assert "\x1b" not in refused.output
    assert statuses == [400, 400, 400, 200]
    assert fields["code_challenge_method"] == "S256"
    assert urlsplit(fields["redirect_uri"]).hostname == "127.0.0.1"
    assert not (home / "var/mcp/tracker.login").exists()


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"issuer": "https://elsewhere.example"}, "issuer mismatch"),
        ({"authorization_endpoint": "http://elsewhere.example/authorize"}, "expected https"),
        ({"registration_endpoint": "http://elsewhere.example/register"}, "expected https"),
        ({"code_challenge_methods_supported": ["plain"]}, "does not support PKCE"),
        ({"authorization_endpoint": "file:///etc/passwd"}, "does not say where one logs in"),
        ({"token_endpoint": "\x1b]0;x\x07"}, "does not say where one logs in"),
    ],
)
def test_hostile_metadata_end_in_a_message(
    tmp_path: Path, server: OAuthServer, browser: Browser, metadata: dict[str, Any], message: str
) -> None:
    server.metadata = metadata
    refused = command(home_with(tmp_path, server.url), "mcp", "login", "tracker")
    assert refused.exit_code != 0
    assert message in refused.output
    assert "\x1b" not in refused.output


def test_one_logs_in_only_where_there_is_a_server_of_logins(tmp_path: Path, server: OAuthServer) -> None:
    home = home_with(tmp_path, server.url, 'secret = "a"\n[mcp.own]\ncommand = ["own"]\n')
    for name, message in (
        ("tracker", "[mcp.tracker] has a secret, a: remove that line"),
        ("own", "[mcp.own] is a program: one logs in at a server that has a url"),
        ("other", "expected an MCP server of etc/narval.toml, got 'other'"),
    ):
        assert message in command(home, "mcp", "login", name).output


def test_a_server_with_a_certificate_of_our_own(tmp_path: Path, browser: Browser) -> None:
    certificate, key = make_certificate(tmp_path)
    trusted = ssl.create_default_context(cafile=certificate)
    browser.visits.append(lambda url: httpx2.get(url, follow_redirects=True, verify=trusted))
    with OAuthServer((certificate, key)).running() as server:
        refused = command(home_with(tmp_path / "a", server.url), "mcp", "login", "tracker")
        assert "certificate verify failed" in refused.output
        home = home_with(tmp_path / "b", server.url, f"ca = {json.dumps(certificate)}\n")
        assert data(home, "mcp", "login", "tracker")["tools"] == 1
        assert data(home, "mcp", "logout", "tracker")["revoked"] is True
