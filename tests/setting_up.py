"""Progress of what sets something up: `python tests/setting_up.py WHAT PROGRAM [ARGUMENT]...`.

At a terminal it is one line, taken back at the end, with the newest line of the program; elsewhere a plain
line from time to time. If it fails, all that it said is written. It needs nothing but a Python.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
import time

SHOWN_EVERY, TOLD_EVERY = 0.5, 10.0
"""Seconds between two looks of the line at a terminal, and between two lines elsewhere."""

_NOT_PRINTED = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[^\x20-\x7e\xa0-\uffff]")


def main(what: str, line: list[str]) -> int:
    """Run a program; its exit status."""
    began, said = time.monotonic(), list[str]()
    try:
        program = subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace"
        )
    except OSError as error:
        print(f"{what}: {line[0]} cannot be run: {error.strerror}", file=sys.stderr)
        return 127
    over, is_terminal = threading.Event(), sys.stdout.isatty()
    telling = threading.Thread(target=_tell, args=(what, said, began, over, is_terminal))
    telling.start()
    try:
        assert program.stdout is not None
        for text in program.stdout:
            said.append(text)
        status = program.wait()
    except KeyboardInterrupt:
        program.wait()
        status = 130
    finally:
        over.set()
        telling.join()
    taken = time.monotonic() - began
    print(f"{what}: {f'{taken:.0f} s' if status == 0 else f'failed after {taken:.0f} s'}", flush=True)
    if status not in (0, 130):
        print("".join(said), file=sys.stderr)
    return status


def _tell(what: str, said: list[str], began: float, over: threading.Event, is_terminal: bool) -> None:
    if not is_terminal:
        print(f"{what} …", flush=True)
    while not over.wait(SHOWN_EVERY if is_terminal else TOLD_EVERY):
        newest = next((text for text in reversed(said) if not text.startswith("WARNING")), "")
        newest = _NOT_PRINTED.sub(" ", newest).strip()
        shown = f"{what} … {time.monotonic() - began:.0f} s  {newest}"
        width = shutil.get_terminal_size().columns - 1
        print(
            f"\r\x1b[K{shown[:width]}" if is_terminal else f"{shown:.110}".rstrip(),
            flush=True,
            end="" if is_terminal else "\n",
        )
    if is_terminal:
        print("\r\x1b[K", end="")


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr] # wherever it is written
    sys.exit(main(sys.argv[1], sys.argv[2:]))
