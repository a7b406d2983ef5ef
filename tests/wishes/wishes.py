"""The wishes of `wishes.toml`, and the files of their examples."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec

from narval.core.errors import RequestError
from narval.files.alterations import example_files
from narval.trials.simulate.files import read_file
from narval.trials.simulate.simulated_home import SimulatedHome
from narval.trials.simulate.simulation import play_scenario, start_of
from tests.places import ROOT

ASKED = ("recipes/model.xml", "recipes/trust.xml", "etc/trust.toml")
"""The files with the work that a home with rules asks, and these rules."""


class Wish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A wish: what a person says, its example, and a wrong change of that."""

    says: str
    example: str
    wrong: tuple[str, str]


class Wishes(msgspec.Struct, frozen=True):
    """The file of the wishes."""

    wish: list[Wish]


WISHES = msgspec.convert(
    tomllib.loads((Path(__file__).parent / "wishes.toml").read_text("utf-8")), Wishes
).wish


def files_of(wish: Wish, folder: str) -> list[Path]:
    """The files of the example of a wish in a folder."""
    return [ROOT / path for path in _files()[f"examples/{wish.example}"] if path.startswith(folder)]


@cache
def _files() -> dict[str, list[str]]:
    return example_files()


def played(home: SimulatedHome, folder: Path) -> Iterator[bool]:
    """Whether each scenario of a folder goes as expected."""
    for path in sorted(folder.iterdir()):
        scenario = read_file(home, path)
        try:
            yield asyncio.run(play_scenario(home, scenario, start_of(home, scenario))).well
        except RequestError:  # what it says cannot happen here, such as a signal without a receiver
            yield False
