"""Scripts as files: their size, where they come from, and what they may not do."""

from __future__ import annotations

import re

import pytest

from tests.surfaces.web import vendored

SCRIPTS = sorted(vendored.STATIC.glob("*.js"))
OWN = [path for path in SCRIPTS if path.name != "idiomorph.js"]


def test_M83_all_scripts_together_are_small() -> None:
    assert sum(path.stat().st_size for path in SCRIPTS) <= 64_000


def test_M83_the_style_sheet_is_one_and_small() -> None:
    [sheet] = vendored.STATIC.glob("*.css")
    assert sheet.stat().st_size <= 24_000


def test_M94_what_is_vendored_is_what_the_table_says() -> None:
    said = {
        name: row for package in vendored.packages().values() for name, row in vendored.files(package).items()
    }
    assert {name: vendored.digest(vendored.STATIC / name) for name in said} == {
        name: row["sha256"] for name, row in said.items()
    }
    assert {path.name for path in SCRIPTS} - {path.name for path in OWN} <= set(said)


def test_M94_every_package_lies_there_with_its_licence() -> None:
    for package in vendored.packages().values():
        assert {"version", "license", "home"} <= set(package)
        assert any("LICENSE" in name for name in vendored.files(package))


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_M71_scripts_write_text_and_classes_and_no_markup(path: object) -> None:
    text = vendored.STATIC.joinpath(path.name).read_text()
    for means in (
        r"\.(inner|outer)HTML\s*=",
        r"insertAdjacentHTML",
        r"document\.write",
        r"\beval\b",
        r"new Function",
        r"\.style\b",
        r"\bsrcdoc\b",
        r"setAttribute\(\"on",
    ):
        assert not re.search(means, text), means
