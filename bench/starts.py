"""W22: whole commands, and programs that open a home, over bare Python in the same round.

    python -m bench.starts [ROUNDS]

The processor time of each program with its start, medians: commands that ask the daemon of a home as
`narval init` makes it, `alone` a status where no daemon runs, `narval.open()`, and a trivial test with the
fixture `agent`. Every command imports click, so what that alone takes is the floor.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from statistics import median

from bench import programs
from bench.measure import argument, emit, scratch

ASKED = {"help": ["--help"], "status": ["status"], "runs": ["runs"], "work": ["work"], "add": ["add", "-"]}
"""The commands that are asked while a daemon runs."""

TEST = "def test_nothing(agent):\n    assert not agent.memory()\n"


def took(command: list[str], given: bytes = b"") -> float:
    """Seconds of processor time of a program, from its start to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, input=given, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    rounds = argument(1, 7)
    narval = str(Path(sys.executable).with_name("narval"))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each program compiles what it imports
    with scratch() as folder:
        home, alone, test = folder / "home", folder / "alone", folder / "test_nothing.py"
        test.write_text(TEST)
        for each in (home, alone):
            subprocess.run([narval, "init", str(each)], check=True, capture_output=True)
        commands = {
            "bare": [sys.executable, "-c", "pass"],
            "click": [sys.executable, "-c", "import click"],
            "open": [sys.executable, "-c", "import narval; narval.open().close()"],
            "test": [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)],
            "alone": [narval, "--home", str(alone), "status"],
        } | {name: [narval, "--home", str(home), *words] for name, words in ASKED.items()}
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        with programs.running(home):
            for each in range(rounds + 1):
                for name, command in commands.items():
                    taken = took(command, b"<starts/>")
                    seconds[name] += [taken] if each else []  # the first makes the files of bytecode
    middle = {name: median(taken) for name, taken in seconds.items()}
    over = {f"{name}_over_bare": round(taken / middle["bare"], 2) for name, taken in middle.items()}
    ms = {f"{name}_ms": round(taken * 1e3, 1) for name, taken in middle.items()}
    most = max(taken for name, taken in middle.items() if name in ASKED and name != "help")
    emit("W22", rounds, middle["bare"], **over, **ms, asked_over_help=round(most / middle["help"], 2))


if __name__ == "__main__":
    main()
