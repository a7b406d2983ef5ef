"""`etc/peers.toml` and `[link]` of the settings: what they say, and every fault at its place (G39, G40)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narval.core.errors import SettingsError
from narval.core.source.text import Source
from narval.files.check import check_home
from narval.files.home import Home
from narval.files.outside.peers import Peers, PeerSettings, load_peers, parse_peers, read_peers
from narval.files.settings import FILE, parse_settings
from narval.files.web_settings import LinkSettings

DIGEST = "ab" * 32

PEERS = f"""\
# where the papers are
[office]
url = "https://office.example.org:8766/"
token = "office-token"
ca = "etc/office-ca.pem"
agents = ["shop", "web"]

[laptop]
token_sha256 = "{DIGEST.upper()}"
agents = ["*"]
asks = ["write", "read"]
requests = 100
bytes = "1M"
"""


def parse(text: str) -> tuple[Peers | None, list[str]]:
    peers, faults = parse_peers(Source("etc/peers.toml", text.encode()))
    return peers, [f"{fault.line}:{fault.column}: {fault.message}" for fault in faults]


def test_G39_a_peer_is_a_table_that_says_how_it_is_reached_and_what_it_may() -> None:
    peers, faults = parse(PEERS)
    assert faults == []
    assert peers is not None
    assert peers["office"] == PeerSettings(
        name="office",
        url="https://office.example.org:8766",
        token="office-token",  # the name of a secret
        ca="etc/office-ca.pem",
        agents=("shop", "web"),
    )
    assert peers["laptop"] == PeerSettings(
        name="laptop",
        token_sha256=DIGEST,
        agents=("*",),
        asks=("write", "read"),
        requests=100,
        bytes=1024 * 1024,
    )
    assert peers["office"].may_address("shop")
    assert not peers["office"].may_address("home")
    assert peers["laptop"].may_address("home")
    assert peers["office"].ca_file(Path("/home")) == "/home/etc/office-ca.pem"


def test_a_peer_may_do_nothing_that_its_table_does_not_say() -> None:
    peers, _ = parse(f'[laptop]\ntoken_sha256 = "{DIGEST}"\n')
    assert peers is not None
    assert peers["laptop"].agents == ()
    assert peers["laptop"].asks == ()


ASKED = 'token = "t"\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("office = 1", "1:10: office: expected a table, [office]"),
        (
            "[Office]\n" + f"token_sha256 = '{DIGEST}'",
            "1:2: Office: expected the name of a peer",
        ),
        ("[office]\nurll = ''", "2:1: unknown setting 'office.urll'; did you mean 'url'?"),
        ("[office]\n", "1:2: office: expected url and token (this home asks it), or token_sha256"),
        (
            "[office]\nurl = 'https://a.org'",
            "1:2: office: expected url and token (this home asks it)",
        ),
        ("[office]\ntoken = 't'", "1:2: office: expected url and token (this home asks it), or neither"),
        (f"[office]\n{ASKED}url = 'office'", "3:7: office.url: expected an address of https, such as"),
        (f"[office]\n{ASKED}url = 'https://[a'", "3:7: office.url: expected an address of https, such as"),
        (f"[office]\n{ASKED}url = 'https://a.org/narval'", "3:7: office.url: expected an address of https,"),
        (f"[office]\n{ASKED}url = 'https://me:pass@a.org'", "3:7: office.url: expected an address of https,"),
        (f"[office]\n{ASKED}url = 'http://a.org'", "3:7: office.url: expected an address of https,"),
        ("[office]\ntoken_sha256 = 'abc'", "2:16: office.token_sha256: expected the SHA-256 of a token"),
        ("[office]\nagents = 'shop'", "2:10: office.agents: expected a list of agents of this home"),
        (
            "[office]\nagents = ['shop', 'a b']",
            "2:19: office.agents: expected the name of an agent",
        ),
        ("[office]\nasks = ['read', 'people']", "2:17: office.asks: expected read or write, found 'people'"),
        ("[office]\nrequests = 0", "2:12: office.requests: expected a whole number from 1 to 600,000"),
        ("[office]\nbytes = '2G'", '2:9: office.bytes: expected at most "1024M"'),
        (
            f"[a]\ntoken_sha256 = '{DIGEST}'\n[b]\ntoken_sha256 = '{DIGEST}'",
            "4:16: b.token_sha256: expected a token of its own, found that of a",
        ),
        ("[office", "1:8: not TOML: "),
    ],
)
def test_a_fault_of_a_peer_is_told_at_its_place(text: str, expected: str) -> None:
    peers, faults = parse(text)
    assert peers is None
    assert faults[0].startswith(expected), faults


def test_all_faults_are_told_at_once_and_by_check(tmp_path: Path) -> None:
    assert read_peers(tmp_path) == ({}, [])
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/peers.toml").write_text("[a]\nurl = 1\n[b]\nagents = 2\n")
    with pytest.raises(SettingsError) as raised:
        load_peers(tmp_path)
    assert len(str(raised.value).splitlines()) == 2
    faults = [str(fault) for fault in check_home(Home(tmp_path))]
    assert [fault for fault in faults if fault.startswith("etc/peers.toml:2:7: a.url: expected")]


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_any_text_is_peers_or_faults(text: str) -> None:
    peers, faults = parse(text)
    assert (peers is None) == bool(faults)


def link_of(text: str) -> LinkSettings | str:
    settings, faults = parse_settings(Source(FILE, text.encode()))
    return settings.link if settings is not None else str(faults[0]).removeprefix(f"{FILE}:")


def test_G39_the_listener_is_open_to_others_with_a_certificate_alone() -> None:
    assert link_of("") == LinkSettings()
    assert link_of("[link]\nlisten = '127.0.0.1:8766'") == LinkSettings(listen="127.0.0.1:8766")
    kept = "cert = 'etc/cert.pem'\nkey = 'etc/key.pem'"
    assert link_of(f"[link]\nlisten = '0.0.0.0:8766'\n{kept}") == LinkSettings(
        listen="0.0.0.0:8766",
        cert="etc/cert.pem",
        key="etc/key.pem",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "listen = '0.0.0.0:8766'",
            "2:10: link.listen: expected an address of this machine alone",
        ),
        ("listen = '8766'", "2:10: link.listen: expected an address and a port"),
        ("cert = 'etc/cert.pem'", "1:2: link: expected cert and key, or neither of them"),
        ("certificate = 'a'", "2:1: unknown setting 'link.certificate'; there is 'cert', 'key', 'listen'"),
    ],
)
def test_a_fault_of_the_listener_is_told_at_its_place(text: str, expected: str) -> None:
    found = link_of(f"[link]\n{text}")
    assert str(found).startswith(expected)
