"""`python -m tests.wishes MODEL` (make wishes MODEL=NAME) scores a model of the settings of a home."""

from __future__ import annotations

import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import click

from narval.core.errors import NarvalError
from narval.files.home import Home
from narval.files.proposals.folder import FAILED
from narval.files.proposals.wish import model_of
from narval.files.settings import Settings
from tests.wishes.score import HEAD, score, table_row
from tests.wishes.wishes import WISHES

MOST_FAILED = 3
"""So many wishes after one another that no model has answered end a run: the rest would not be either."""


@click.command("make wishes")
@click.argument("model")
@click.option(
    "--home", type=click.Path(path_type=Path), help="The home with the settings; usually ~/.narval."
)
@click.option("--only", default="", metavar="NAMES", help="The wishes of these examples alone.")
def main(model: str, home: Path | None, only: str) -> None:
    """Have a model propose each wish, and play the scenarios of its example with what it has drafted.

    It drafts in a scratch home with the settings of HOME, so what a day may cost counts for this run
    alone.
    """
    names = only.split()
    if unknown := {*names} - {wish.example for wish in WISHES}:
        raise click.UsageError(f"there is no wish with the example {', '.join(sorted(unknown))}")
    try:
        place = Home.find(home).path
        service = model_of(Settings.load(place), model)
        with tempfile.TemporaryDirectory(prefix="narval-wishes-") as scratch:
            shutil.copytree(place / "etc", Path(scratch) / "etc")
            for folder in ("recipes", "modules", "data"):
                (Path(scratch) / folder).mkdir()
            scores, failed = [], 0
            for wish in [wish for wish in WISHES if not names or wish.example in names]:
                scores.append(one := score(Path(scratch), wish, model))
                why = f": {one.why}" if one.why else ""
                click.echo(
                    f"{one.example}: {one.state}, rounds {one.rounds}, "
                    f"scenarios {one.passed} of {one.scenarios}{why}"
                )
                failed = failed + 1 if one.state == FAILED else 0
                if failed == MOST_FAILED:
                    raise click.ClickException(
                        f"no model has answered {failed} wishes after one another, so the rest is left out"
                    )
    except NarvalError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"\n{HEAD}\n{table_row(service, datetime.now(UTC).date().isoformat(), scores)}")


if __name__ == "__main__":
    main()
