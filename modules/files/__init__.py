"""Files: watching a folder, and operations on a single file (N36, N37).

`watch` reports the files of `<folder path="…"/>` as `<file path="…" event="…"/>` elements: existing ones,
then each that is created, modified, moved or deleted, even while no daemon ran. The other actions take such
elements. They reach only files in the home, or in the folder that the element names.
"""

from __future__ import annotations

import asyncio
import codecs
import errno
import os
import shutil
import stat
from collections.abc import AsyncIterator
from pathlib import Path

from lxml import etree

from narval import ActionError, Element, Input, Needs, Output, action, call

from .appending import append_once
from .places import (
    Stamp,
    atomically,
    clean,
    error_element,
    file_element,
    moment,
    opening,
    place,
    shown,
    status,
)
from .watching import BATCH, WHOLE, Folder, Notices, Told, look

MAX_TEXT = 8 * 1024 * 1024
FOLDER = Input("folder", "folder[@path]", reads="path pattern recursive settle sha256")
FILES = Output(
    "files",
    "file[@path and @event]",
    list=True,
    optional=True,
    unique="concat(@path,' ',@stamp,' ',@event='deleted')",
    own=["@event", "@folder", "@size", "@modified", "@stamp", "@sha256"],
)
TROUBLES = Output("troubles", "error[@folder]", list=True, optional=True)
"""The output for errors, declared so that an unreadable file does not end a source that runs on."""


# --- watching -------------------------------------------------------------------------------------------


@action(
    source=True,
    inputs=[FOLDER],
    outputs=[FILES, TROUBLES],
    description="The files of a folder, as they change.",
    where=["folder/@path"],
    label="file",
    needs=Needs(folders=["{folder/@path} r"]),
)
async def watch(folder: Element) -> AsyncIterator[list[etree._Element]]:
    """Yield the files of a folder, then each change; the system reports changes, nothing is polled."""
    here = call()
    watched = Folder.of(folder, here.home)
    reported = await asyncio.to_thread(Told, watched.told_at(here.home))
    was_there, caught_up = True, False
    notices = Notices(watched.path, watched.settle, recursive=watched.recursive)
    try:
        while True:
            dirty = await notices.quiet() if caught_up else {WHOLE: True}
            if await asyncio.to_thread(notices.arm):
                dirty |= {WHOLE: True}
            is_there = await asyncio.to_thread(watched.path.is_dir)
            if was_there and not is_there:
                wish = f'if it is the wrong one, set <folder path="{watched.shown()}"> right'
                missing = f"{watched.path}: it is not there; waiting for it; {wish}"
                yield [error_element("no-such-folder", missing, watched.shown())]
            elif is_there:
                here.recovered()
            was_there = is_there
            changes = await asyncio.to_thread(look, watched, reported.known, dirty)
            for start in range(0, len(changes), BATCH):
                batch = changes[start : start + BATCH]
                elements = await asyncio.to_thread(watched.elements, batch)
                if elements:
                    yield elements
                await asyncio.to_thread(reported.record, batch)
            if not caught_up:
                here.caught_up()
                caught_up = True
    finally:
        notices.close()


# --- single files ---------------------------------------------------------------------------------------


FILE = Input("file", "file[@path]")
TO = Input("to", "to[@path]", reads="path folder replace")
TEXT = Input("text", "text[@path]", reads="path folder")
WRITES = Needs(folders=["[home] rw", "{text/@folder} rw"])
MOVES = Needs(folders=["[home] rw", "{file/@folder} rw", "{to/@folder} rw"])
DONE = Output("file", "file[@path and @event]")
MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
"""Byte order marks; those of UTF-32 first, as they begin like those of UTF-16."""


@action(
    inputs=[FILE],
    outputs=[Output("text", "text[@path]")],
    outside=False,
    description="The text of a file.",
    where=["file/@path", "file/@folder"],
    label="file",
    needs=Needs(folders=["[home] r", "{file/@folder} r"]),
)
def read_text(file: Element) -> etree._Element:
    """Read a file as text: by its byte order mark, else as UTF-8, else as windows-1252."""
    path = place(file)
    with opening(path) as opened:
        data = opened.read(MAX_TEXT + 1)
    if len(data) > MAX_TEXT:
        raise ActionError(f"expected at most {MAX_TEXT:,} bytes of text in {path}, got more", "too-large")
    text, encoding = _decoded(data, path)
    element = etree.Element("text", path=file.attributes["path"], name=path.name, encoding=encoding)
    element.text = clean(text)
    return element


@action(
    inputs=[TEXT],
    outputs=[DONE],
    description="A file with the text of an element.",
    where=["text/@path", "text/@folder"],
    needs=WRITES,
)
def write(text: Element) -> etree._Element:
    """Write the text of an element to the path that it names, whole or not at all."""
    path = place(text)
    data = text.text.encode()
    atomically(path, lambda file: file.write(data))
    return _done(path, "written", text)


@action(
    inputs=[TEXT],
    outputs=[DONE],
    description="A file with one more line at its end.",
    where=["text/@path", "text/@folder"],
    needs=WRITES,
)
def append(text: Element) -> etree._Element:
    """Append the text of an element as a line to the file that it names; once for each call."""
    path = place(text)
    line = text.text if text.text.endswith("\n") else f"{text.text}\n"
    append_once(path, line.encode())
    return _done(path, "appended", text)


@action(
    inputs=[FILE, TO],
    outputs=[DONE],
    description="A second file with the same content.",
    where=["file/@path", "file/@folder", "to/@path", "to/@folder"],
    needs=MOVES,
)
def copy(file: Element, to: Element) -> etree._Element:
    """Copy a file, with its time; another file at the target is an error unless `replace="yes"`."""
    source = place(file)
    target = _target(to, source.name)
    with opening(source) as opened:
        now = os.fstat(opened.fileno())
        if not _is_copy(target, now, to):
            atomically(target, lambda fresh: shutil.copyfileobj(opened, fresh), now)
    return _done(target, "copied", to, file)


@action(
    inputs=[FILE, TO],
    outputs=[DONE],
    description="The file, at another place.",
    where=["file/@path", "file/@folder", "to/@path", "to/@folder"],
    needs=MOVES,
)
def move(file: Element, to: Element) -> etree._Element:
    """Move a file, even to another disk; another file at the target is an error unless `replace="yes"`."""
    source = place(file)
    target = _target(to, source.name)
    if not (status(source) is None and _was_moved(file, target)):
        with opening(source) as opened:
            now = os.fstat(opened.fileno())
            _is_copy(target, now, to)
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.rename(source, target)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                atomically(target, lambda fresh: shutil.copyfileobj(opened, fresh), now)
                os.unlink(source)
    return _done(target, "moved", to, file)


@action(
    inputs=[FILE],
    outputs=[DONE],
    description="The file, gone.",
    where=["file/@path", "file/@folder"],
    needs=MOVES,
)
def delete(file: Element) -> etree._Element:
    """Delete a file; a missing one is not an error, since an earlier try of the call may have deleted it."""
    path = place(file)
    before = status(path)
    if before is not None and stat.S_ISDIR(before.st_mode):
        raise ActionError(f"expected a file, got the folder {path}", "not-a-file")
    path.unlink(missing_ok=True)
    return _done(path, "deleted", file)


def _decoded(data: bytes, path: Path) -> tuple[str, str]:
    for mark, encoding in MARKS.items():
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace"), encoding
    if b"\0" in data:
        raise ActionError(f"expected text in {path}, got a file with zero bytes in it", "not-text")
    try:
        return data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return data.decode("windows-1252", "replace"), "windows-1252"


def _target(to: Element, name: str) -> Path:
    """The target path of `to`: in it, under the file's own name, if it is a folder or ends like one."""
    target = place(to)
    return target / name if target.is_dir() or to.attributes["path"].endswith("/") else target


def _is_copy(target: Path, source: os.stat_result, to: Element) -> bool:
    """True if the copy exists already. Raises ActionError for another file that may not be replaced."""
    there = status(target)
    same = there is not None and (there.st_size, there.st_mtime_ns) == (source.st_size, source.st_mtime_ns)
    if there is None or same:
        return same
    if stat.S_ISDIR(there.st_mode) or to.attributes.get("replace") != "yes":
        raise ActionError(
            f'expected nothing at {target}; to replace what is there, write replace="yes"', "exists"
        )
    return False


def _was_moved(file: Element, target: Path) -> bool:
    """True if an earlier try of this call moved the file: the target is as the element says."""
    there = status(target)
    if there is None:
        return False
    now = {"size": str(there.st_size), "modified": moment(there.st_mtime_ns)}
    return all(file.attributes.get(name, value) == value for name, value in now.items())


def _done(path: Path, event: str, named: Element, source: Element | None = None) -> etree._Element:
    """The element of a file after an operation on it."""
    there = status(path)
    stamp = there and Stamp(there.st_size, there.st_mtime_ns, there.st_ctime_ns, there.st_ino)
    element = file_element(shown(path, call().home), event, stamp, named.attributes.get("folder", ""))
    if source is not None:
        element.set("from", source.attributes["path"])
    return element
