"""The program that answers one request to run a script, and ends.

    python -m narval.system.scripts.one_shot LIMITS

It may reach only the places in LIMITS, if the system can confine it. The request comes on standard input, the
answer goes to standard output, and the script's printed lines go to standard error. The caller kills the
program when it takes too long.
"""

from __future__ import annotations

import sys
from functools import partial

import msgspec

from narval.core.errors import ActionError
from narval.system.confinement import Confinement, abi, confine_thread
from narval.system.memory_limit import bound_memory
from narval.system.scripts.interpreters import MEMORY, Script, run

ROOM = 512 * 1024 * 1024
"""The bytes that the interpreters need besides a script's own."""


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
