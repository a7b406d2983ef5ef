"""Moving and flagging letters in a Maildir, and between its folders, by their names in Maildir++."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG

from narval import ActionError

from .letters import UnreachableError
from .mailbox import Mailbox
from .wanted import FLAGS, Wanted


class MaildirFiler:
    """Moves and flags a letter of a Maildir by renaming its file."""

    def __init__(self, box: Mailbox, wanted: Wanted) -> None:
        self._box, self._wanted = box, wanted

    def move(self, to: str) -> None:
        """Move the letter to a folder; it stays read or unread."""
        target = self._folder(to)
        files = list(self._found(self._box.path)) if target != self._box.path else []
        if not files and not any(self._found(target)):
            raise self._wanted.missing(f"account {self._box}, nor in its {to}")
        for file in files:
            place = target / file.parent.name / file.name
            if place.exists():
                raise ActionError(f"expected nothing at {place}", "exists", final=True)
            file.rename(place)

    def flag(self, add: list[str], remove: list[str]) -> None:
        """Rename the letter's file, whose name has its flags."""
        for name in (*add, *remove):
            if name not in FLAGS:
                raise ActionError(
                    f"a Maildir knows {', '.join(FLAGS)}, and no {name!r}", "bad-flag", final=True
                )
        files = list(self._found(self._box.path))
        if not files:
            raise self._wanted.missing(f"account {self._box}")
        for file in files:
            base, _, flags = file.name.partition(":2,")
            now = (set(flags) | {FLAGS[name][1] for name in add}) - {FLAGS[name][1] for name in remove}
            if now != set(flags):
                file.rename(self._box.path / "cur" / f"{base}:2,{''.join(sorted(now))}")

    def _folder(self, to: str) -> Path:
        """The path of a folder. Raises ActionError if there is none."""
        path = self._box.path
        if to.upper() == "INBOX":
            return path
        parts = re.split(r"[./]", to)
        folder = path / f".{'.'.join(parts)}"
        if not all(parts) or "\0" in to or not (folder / "cur").is_dir():
            folders = sorted(entry.name[1:] for entry in path.glob(".*/") if (entry / "cur").is_dir())
            said = f"expected a folder of account {self._box}, got {to!r:.80}"
            raise ActionError(
                f"{said}; there is {', '.join(folders) or 'none'}", "no-such-folder", final=True
            )
        return folder

    def _found(self, folder: Path) -> Iterator[Path]:
        """The files of the letter, in one folder."""
        if not any((folder / name).is_dir() for name in ("cur", "new")):
            said = f"account {self._box}: expected a Maildir, with new/ or cur/ in it, at {folder}"
            raise UnreachableError(said)
        for path in (*folder.glob("cur/*"), *folder.glob("new/*")):
            with suppress(OSError):  # just moved, or unreadable
                state = path.stat()
                same = S_ISREG(state.st_mode) and state.st_size == self._wanted.size
                if same and self._wanted.fits(path.read_bytes()):
                    yield path
