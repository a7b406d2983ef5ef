"""Pairing: a code that one home prints and another accepts, and the tables that both write (G40)."""

from __future__ import annotations

from pathlib import Path

import pytest

from narval.core.errors import OperatorError
from narval.files.agents.senders import token_digest
from narval.files.outside.peers import (
    HOLDS,
    PEERS_FILE,
    NewPeer,
    accept_link,
    add_link,
    load_peers,
    remove_link,
)

URL = "https://office.example.org:8766"
BEFORE = """\
# those of before

[desk]  # at home
token_sha256 = "abababababababababababababababababababababababababababababababab"

# the last one
[attic]
token_sha256 = "cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd"
"""


@pytest.fixture
def homes(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("laptop", "office"):
        (tmp_path / name / "etc").mkdir(parents=True)
    (tmp_path / "office" / PEERS_FILE).write_text(BEFORE)
    return tmp_path / "laptop", tmp_path / "office"


def added(home: Path, now: float = 0.0) -> str:
    return add_link(home, NewPeer("office", URL, None, ["shop"]), "laptop", now)


def test_G40_a_code_makes_both_homes_peers_and_is_no_secret(homes: tuple[Path, Path]) -> None:
    laptop, office = homes
    code = added(laptop)
    secret = laptop / "etc/link-office"
    token = secret.read_text().strip()
    assert secret.stat().st_mode & 0o077 == 0
    assert token not in code
    assert accept_link(office, f" {code}\n", None, ["*"], HOLDS) == "laptop"
    here, there = load_peers(laptop)["office"], load_peers(office)["laptop"]
    assert (here.url, here.token, here.agents, here.asks) == (URL, "link-office", ("shop",), ())
    assert (there.token_sha256, there.agents, there.asks) == (token_digest(token), ("*",), ())
    assert (office / PEERS_FILE).read_text().startswith(BEFORE)


def test_a_code_holds_for_ten_minutes_and_once(homes: tuple[Path, Path]) -> None:
    laptop, office = homes
    code = added(laptop)
    with pytest.raises(OperatorError, match="has expired, after ten minutes"):
        accept_link(office, code, None, [], HOLDS + 1.0)
    accept_link(office, code, None, [], 1.0)
    remove_link(office, "laptop")
    with pytest.raises(OperatorError, match="was accepted already"):
        accept_link(office, code, "other", [], 2.0)


@pytest.mark.parametrize(
    "harm", [lambda code: code[:-3], lambda code: code.replace(code[20], "!"), str.upper]
)
def test_a_code_that_was_not_copied_whole_is_none(homes: tuple[Path, Path], harm: object) -> None:
    laptop, office = homes
    with pytest.raises(OperatorError, match="expected a code that `narval link add` has printed"):
        accept_link(office, harm(added(laptop)), None, [], 1.0)  # type: ignore[operator]


def test_what_is_there_or_is_wrong_is_refused_and_nothing_is_written(
    homes: tuple[Path, Path],
) -> None:
    laptop, office = homes
    code = added(laptop)
    with pytest.raises(OperatorError, match=r"\[attic\] is in etc/peers.toml already"):
        accept_link(office, code, "attic", [], 1.0)
    with pytest.raises(OperatorError, match="office is a peer already"):
        added(laptop)
    with pytest.raises(OperatorError, match="expected an address of https"):
        add_link(laptop, NewPeer("barn", "barn", None, []), "laptop", 0.0)
    assert (office / PEERS_FILE).read_text() == BEFORE
    assert not (laptop / "etc/link-barn").exists()
    (office / PEERS_FILE).write_text("[desk")
    with pytest.raises(OperatorError, match=r"etc/peers\.toml:1:"):
        accept_link(office, code, None, [], 1.0)


def test_a_table_is_removed_and_the_rest_stays_as_it_is(homes: tuple[Path, Path]) -> None:
    laptop, office = homes
    remove_link(office, "desk")
    left = (office / PEERS_FILE).read_text()
    assert left == BEFORE[: BEFORE.index("[desk]")] + BEFORE[BEFORE.index("\n# the last one") :]
    with pytest.raises(OperatorError, match=r"there is no peer 'desk' in etc/peers\.toml"):
        remove_link(office, "desk")
    added(laptop)
    remove_link(laptop, "office")
    assert load_peers(laptop) == {}
    assert not (laptop / "etc/link-office").exists()
