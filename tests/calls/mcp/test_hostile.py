"""Hostile servers: floods, huge messages, rubbish, silence and false results end in an error (G84)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.calls.mcp.servers_at_work import HomeWithServer


@pytest.mark.parametrize(
    ("how", "attributes", "kind", "message"),
    [
        ("huge", {}, "server-lost", "it sent a message of more than 4,194,304 bytes"),
        ("rubbish", {}, "server-lost", "it sent more than 100 lines that are no messages"),
        ("mute", {"timeout": "2"}, "timeout", "did not come back within 2 s"),
        ("many", {}, "too-large", "expected at most 500 tools"),
    ],
)
def test_what_a_server_should_not_do_is_an_error(
    tmp_path: Path, how: str, attributes: dict[str, str], kind: str, message: str
) -> None:
    home = HomeWithServer(tmp_path)
    try:
        home.behave(how)
        made = home.call("parts", **attributes)
        assert made.attributes["type"] == kind
        assert message in made.text
    finally:
        home.close()


def test_a_flood_goes_by_and_a_result_against_its_schema_is_refused(tmp_path: Path) -> None:
    home = HomeWithServer(tmp_path)
    try:
        home.behave("flood")
        assert home.call("environment").name == "environment-result"
        home.behave("odd")
        made = home.call("shape")
        assert made.attributes["type"] == "bad-output"
    finally:
        home.close()
