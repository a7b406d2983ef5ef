"""Extras: how to install optional packages, from the place that narval was installed from.

The name of narval on a public index may be another person's package, so no user is sent there.
"""

from __future__ import annotations

import json
import shlex
from typing import Any
from urllib.parse import unquote, urlsplit


def install_command(extra: str, came_from: dict[str, Any] | None = None) -> str:
    """The command that installs an extra; `came_from` is the installer's record (PEP 610), None: the record
    of this narval.
    """
    noted = _came_from() if came_from is None else came_from
    url = str(noted.get("url", ""))
    if url.startswith("file:"):
        path = unquote(urlsplit(url).path)
        editable = "-e " if noted.get("dir_info", {}).get("editable") else ""
        return f"pip install {editable}{shlex.quote(f'{path}[{extra}]')}"
    if "vcs_info" in noted:
        commit = str(noted["vcs_info"].get("commit_id", ""))
        at = f"@{commit}" if commit else ""
        return "pip install " + shlex.quote(
            f"narval[{extra}] @ {noted['vcs_info'].get('vcs', 'git')}+{url}{at}"
        )
    if url:
        return "pip install " + shlex.quote(f"narval[{extra}] @ {url}")
    return f"pip install '.[{extra}]', in the folder of its sources"


def is_installed(package: str) -> bool:
    """True if a package can be imported; it is not imported, but its parent may be."""
    from importlib.util import find_spec

    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):  # its parent is missing
        return False


def _came_from() -> dict[str, Any]:
    """The installer's record of where this narval came from; empty if unknown."""
    from importlib.metadata import PackageNotFoundError, distribution  # it imports the package email

    try:
        text = distribution("narval").read_text("direct_url.json")
        noted = json.loads(text) if text else {}
    except (PackageNotFoundError, OSError, ValueError):
        return {}
    return noted if isinstance(noted, dict) else {}
