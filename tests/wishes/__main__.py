"""`python -m tests.wishes MODEL [HOME]` (make wishes) scores a model of the settings of a home."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from narval.files.home import Home
from tests.wishes.score import score, table
from tests.wishes.wishes import WISHES


def main(model: str, home: str | None = None) -> None:
    """Have the model propose each wish in a scratch home with the settings of a home, and say its score."""
    settings = Home.find(Path(home) if home else None).path / "etc"
    scores = []
    with tempfile.TemporaryDirectory(prefix="narval-wishes-") as scratch:
        shutil.copytree(settings, Path(scratch) / "etc")
        for folder in ("recipes", "modules", "data"):
            (Path(scratch) / folder).mkdir()
        for wish in WISHES:
            scores.append(one := score(Path(scratch), wish, model))
            print(
                f"{one.example}: {one.state}, rounds {one.rounds}, scenarios {one.passed} of {one.scenarios}"
            )
    print(table(scores))


main(*sys.argv[1:])
