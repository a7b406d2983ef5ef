"""The command that installs an extra, from where this narval came."""

from __future__ import annotations

from typing import Any

import pytest

from narval.system.extras import install_command


@pytest.mark.parametrize(
    ("came_from", "command"),
    [
        (
            {"url": "file:///srv/my%20narval", "dir_info": {"editable": True}},
            "pip install -e '/srv/my narval[mcp]'",
        ),
        ({"url": "file:///srv/narval", "dir_info": {}}, "pip install '/srv/narval[mcp]'"),
        ({"url": "file:///tmp/narval-1.whl", "archive_info": {}}, "pip install '/tmp/narval-1.whl[mcp]'"),
        (
            {"url": "https://example.org/narval", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "pip install 'narval[mcp] @ git+https://example.org/narval@abc'",
        ),
        (
            {"url": "https://example.org/narval-1.whl", "archive_info": {}},
            "pip install 'narval[mcp] @ https://example.org/narval-1.whl'",
        ),
        ({}, "pip install '.[mcp]', in the folder of its sources"),
    ],
)
def test_an_extra_is_installed_from_where_narval_came(came_from: dict[str, Any], command: str) -> None:
    assert install_command("mcp", came_from) == command


def test_nobody_is_sent_to_a_public_index() -> None:
    assert "'narval[" not in install_command("cluster").replace("'narval[cluster] @ ", "")
