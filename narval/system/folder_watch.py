"""Folders watched for changes through events of the system, collected by watchdog; nothing is polled."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

_FILE_EVENTS = (
    "FileCreatedEvent", "FileModifiedEvent", "FileAttribEvent", "FileClosedEvent", "FileMovedEvent",
    "FileDeletedEvent",
)  # fmt: skip
"""The file events that count: not opening a file, nor closing it unwritten, which a read causes."""

_FOLDER_EVENTS = ("DirCreatedEvent", "DirMovedEvent", "DirDeletedEvent")

_SILENCE = logging.NullHandler()
"""A handler that drops warnings of watchdog, which Python would otherwise write to standard error."""


class FolderWatch:
    """Watches folders until it is closed: `add` each of them. Making one and adding may block, so not in the
    event loop.

    An event only means that the folder should be checked. A change may come as several events, and events may
    be lost if very many come at once.
    """

    def __init__(self) -> None:
        from watchdog.observers import Observer  # here because few programs watch folders

        logging.getLogger("watchdog").addHandler(_SILENCE)
        warnings.filterwarnings("ignore", "Callback with id", RuntimeWarning)  # about folders made just now
        self._observer = Observer()
        self._observer.start()

    def add(
        self,
        folder: Path,
        hear: Callable[[bool, tuple[str, ...]], None],
        *,
        deep: bool = False,
        files: bool = True,
    ) -> None:
        """Call `hear` for each change in a folder, with `deep` also in the folders below it; without `files`
        only for changes of folders in it. It is called in a thread of its own: `hear(is_folder, paths)`, with
        one path, or two for a move.

        Raises FileNotFoundError or NotADirectoryError if there is no folder, and another OSError if the
        system's limit of watches is reached.
        """
        from watchdog import events

        counted = [getattr(events, name) for name in (*(_FILE_EVENTS if files else ()), *_FOLDER_EVENTS)]
        listener: Any = _Listener(hear)
        self._observer.schedule(listener, os.fspath(folder), recursive=deep, event_filter=counted)

    def close(self, *, wait: bool = False) -> None:
        """Stop watching; with `wait`, no more calls are made after this returns."""
        self._observer.stop()
        if wait:
            self._observer.join()


class _Listener:
    """Takes the events of one folder from watchdog."""

    def __init__(self, hear: Callable[[bool, tuple[str, ...]], None]) -> None:
        self._hear = hear

    def dispatch(self, event: Any) -> None:
        """Handle an event; watchdog calls this in a thread of its own."""
        self._hear(event.is_directory, tuple(filter(None, (event.src_path, event.dest_path))))
