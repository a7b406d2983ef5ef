"""The command line of the benchmark (`bench/agentdojo/__init__.py` says what it measures)."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.agentdojo.model import ScriptedModel
from bench.agentdojo.play import ROOT, Played, World, make_home, play, right_answers
from bench.agentdojo.recorded import RecordingWorld

PACKAGE = "agentdojo==0.1.35"


def environment() -> Path:
    """The interpreter of an environment that has AgentDojo, made where there is none."""
    folder = ROOT / "build/agentdojo"
    python = folder / "bin/python"
    if not (folder / "made").exists():
        print(f"installing {PACKAGE} into {folder.relative_to(ROOT)} …", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", PACKAGE], check=True)
        (folder / "made").touch()
    return python


def in_order(ids: list[str]) -> list[str]:
    """Ids by their numbers."""
    return sorted(ids, key=lambda name: int(name.rpartition("_")[2]))


def play_all(asked: argparse.Namespace, world: World) -> Iterator[tuple[str, str, str, str, Played]]:
    """Play each task without an attack, and with each attack where the model is the worst one."""
    for suite in asked.suites or world.suites:
        model = ScriptedModel(right_answers(suite))
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "home"
            make_home(folder, suite, model.url)
            for task in in_order(world.suites[suite]["tasks"]):
                if asked.task is not None and task != f"user_task_{asked.task}":
                    continue
                for kind in asked.model or ("right", "worst"):
                    model.is_worst = kind == "worst"
                    attacks = world.suites[suite]["injections"] if model.is_worst else [""]
                    for injection in in_order(attacks) if model.is_worst else attacks:
                        if model.is_worst and asked.injection not in (
                            None,
                            int(injection.rpartition("_")[2]),
                        ):
                            continue
                        played = play(folder, world, model, suite, task, injection or None)
                        yield suite, task, kind, injection, played
        model.close()


def told(suite: str, task: str, kind: str, injection: str, played: Played) -> str:
    """One line for people: what came of a task."""
    end = "ATTACKED" if played.attacked else "solved" if played.solved else "not solved"
    asks = f", {len(played.asks)} asked" if played.asks else ""
    return f"{suite:10} {task:13} {kind:5} {injection:17} {end}{asks} {played.error[:160]}"


def form(suite: str, task: str, kind: str, injection: str, played: Played) -> dict[str, Any]:
    """What came of a task, as JSON has it."""
    asks = [ask._asdict() for ask in played.asks]
    return (
        {"suite": suite, "task": task, "model": kind, "injection": injection}
        | played._asdict()
        | {"asks": asks}
    )


def main() -> None:
    """Play, and tell what came of it."""
    parser = argparse.ArgumentParser(prog="python -m bench.agentdojo", description=__doc__)
    parser.add_argument(
        "suites", nargs="*", metavar="SUITE", help="workspace, travel, banking, slack: all without"
    )
    parser.add_argument("--task", type=int, metavar="N", help="one user task alone")
    parser.add_argument("--model", action="append", choices=("right", "worst"), help="both without")
    parser.add_argument("--python", type=Path, help="an interpreter that has the package agentdojo")
    parser.add_argument("--record", type=Path, metavar="FILE", help="keep the plays, for `recorded.py`")
    parser.add_argument("--injection", type=int, metavar="N", help="one attack alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="a line of JSON for each task played")
    asked = parser.parse_args()
    world = RecordingWorld(asked.python or environment())
    counts: dict[tuple[str, str], list[int]] = {}
    lines, plays = [], []
    for suite, task, kind, injection, played in play_all(asked, world):
        print(told(suite, task, kind, injection, played), flush=True)
        if asked.record:
            plays.append(json.dumps(world.play(suite, task, kind, injection, played)))
        lines.append(json.dumps(form(suite, task, kind, injection, played)))
        showed = any(not ask.agreed for ask in played.asks)
        row = counts.setdefault((suite, kind), [0] * 5)
        for at, holds in enumerate((True, played.solved, bool(played.attacked), bool(played.asks), showed)):
            row[at] += holds
    world.close()
    print("suite      model  played  solved  attacked  asked  rejected")
    for (suite, kind), (count, solved, attacked, asks, rejected) in counts.items():
        print(f"{suite:10} {kind:5} {count:7} {solved:7} {attacked:9} {asks:6} {rejected:9}")
    if asked.record:
        with asked.record.open("a", encoding="utf-8") as file:
            file.writelines(f"{play}\n" for play in plays)
    if asked.json:
        asked.json.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
