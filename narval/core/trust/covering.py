"""Covering: whether the granted needs include a need, by its text.

A worker checks each host that it connects to with this module, which imports nothing of definitions.
"""

from __future__ import annotations

from collections.abc import Iterable

ANYTHING = "anything"
"""The need of code that declares none."""


def is_covered(need: str, granted: Iterable[str]) -> bool:
    """True if the granted needs include a need, by its text."""
    what, _, value = need.partition(" ")
    return any(_covers(grant, what, value) for grant in granted)


def _covers(grant: str, what: str, value: str) -> bool:
    granted, _, wide = grant.partition(" ")
    if granted == ANYTHING:
        return True
    if granted != what:
        return False
    if what == "host":
        return _covers_host(wide, value)
    if what == "folder":
        return _covers_folder(wide, value)
    return wide in (value, "*")


def _covers_host(wide: str, value: str) -> bool:
    if wide == value:
        return True
    if "{" in wide or "{" in value:
        return wide == value
    (name, port), (other, of_other) = _host_and_port(wide), _host_and_port(value)
    if port and port != of_other:
        return False
    return name in ("*", other) or (name.startswith("*.") and other.endswith(name[1:]))


def _host_and_port(text: str) -> tuple[str, str]:
    host, colon, port = text.rpartition(":")
    return (host, port) if colon and port.isdigit() else (text, "")


def _covers_folder(wide: str, value: str) -> bool:
    (folder, _, how), (path, _, use) = wide.rpartition(" "), value.rpartition(" ")
    if how == "r" and use != "r":
        return False
    if "{" in folder or "{" in path:
        return folder == path
    folder, path = normal(folder), normal(path)
    if not folder:  # the home
        rest = "/" if path.startswith(("/", "~")) else path
    elif folder == path:
        return True
    else:
        within = folder.rstrip("/") + "/"
        rest = path.removeprefix(within) if path.startswith(within) else "/"
    return not rest.startswith("/") and rest.partition("/")[0] != ".."


def normal(path: str) -> str:
    """A path without `.` and `..`, unless a `..` leads out of it."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts and parts[-1] != ".." and not parts[-1].startswith("~"):
            parts.pop()
        elif part not in ("", ".") and not (part == ".." and path.startswith("/")):
            parts.append(part)
    return ("/" if path.startswith("/") else "") + "/".join(parts)
