"""The program that answers one question to a script, and ends.

    python -m narval.system.scripts.one_shot LIMITS

It may reach the places of LIMITS alone, where the system can confine it. The question comes on standard
input, the answer goes to standard output; the script's prints go to standard error. The caller kills the
program when it takes too long.
"""

from __future__ import annotations

import sys
from functools import partial

import msgspec

from narval.core.errors import ActionError
from narval.system.landlock import Confinement, abi, confine_thread
from narval.system.memory_limit import bound_memory
from narval.system.scripts.interpreters import MEMORY, Script, run

ROOM = 512 * 1024 * 1024
"""Bytes that the interpreters need besides those of a script."""


class ScriptAnswer(msgspec.Struct, frozen=True):
    """The value of the script, or the reason why it has none."""

    value: str | int | float | bool | None = None
    kind: str = ""
    message: str = ""


def main() -> None:
    """Read, run, write."""
    if abi():
        confine_thread(msgspec.json.decode(sys.argv[1], type=Confinement), has_hosts=False)
    script = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Script)
    bound_memory(MEMORY + ROOM)
    try:
        answer = ScriptAnswer(run(script, partial(print, file=sys.stderr)).value)
    except ActionError as error:
        answer = ScriptAnswer(None, error.kind, str(error))
    sys.stdout.buffer.write(msgspec.msgpack.encode(answer))


if __name__ == "__main__":
    main()
