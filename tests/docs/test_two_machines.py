"""The page of two machines on one PostgreSQL, followed with a real server and two homes on this machine."""

from __future__ import annotations

from pathlib import Path

from tests.docs.typed import reader_in, type_along
from tests.places import ROOT

PAGE = ROOT / "docs" / "how-to" / "two-machines-one-postgresql.md"
URL = "postgresql://narval@db.example.org/narval"


def test_it_goes_as_the_page_says(postgres_url: str, tmp_path: Path) -> None:
    page = tmp_path / PAGE.name
    text = PAGE.read_text(encoding="utf-8")
    assert PAGE.name == "two-machines-one-postgresql.md"
    assert text.count(URL) == 2
    page.write_text(text.replace(URL, postgres_url))
    (tmp_path / "ann").mkdir()
    reader = reader_in(tmp_path / "ann")
    try:
        for home in ("~/.narval", "barn"):
            assert "is a home" in reader.does(f"narval init --bare {home}")
        type_along(reader, page)
    finally:
        reader.end()
