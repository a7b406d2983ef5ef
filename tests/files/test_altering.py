"""Several files altered at once: cut short anywhere, all of it is there in the end, or nothing ever began."""

from __future__ import annotations

from pathlib import Path

import pytest

from narval.core.errors import RequestError
from narval.files.proposals import altering
from narval.files.proposals.altering import Alteration, FileChange, alter, finish_altering
from narval.files.proposals.folder import Proposal

NEW = (
    FileChange("etc/grants.toml", None, "granted"),
    FileChange("data/memory.xml", "<memory/>", "<memory><a/></memory>"),
    FileChange("recipes/idea/a.xml", None, "<a/>"),
    FileChange("recipes/idea/b.xml", None, "<b/>"),
)
BACK = tuple(FileChange(change.path, change.after, change.before) for change in reversed(NEW))


class KilledError(BaseException):
    """A program that ends between two writes."""


@pytest.fixture
def proposal(tmp_path: Path) -> Proposal:
    for folder in ("etc", "data", "recipes"):
        (tmp_path / folder).mkdir()
    (tmp_path / "data/memory.xml").write_text("<memory/>")
    made = Proposal(tmp_path, "idea")
    assert made.begin({"state": "ready"}, "a wish")
    return made


def texts(home: Path) -> dict[str, str]:
    files = (path for part in ("etc", "data", "recipes") for path in (home / part).rglob("*"))
    return {path.relative_to(home).as_posix(): path.read_text() for path in files if path.is_file()}


@pytest.mark.parametrize("left", range(15))
def test_D10_what_was_cut_short_is_finished_and_what_never_began_is_not(
    proposal: Proposal, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    home, before, write, unlink = proposal.home, texts(proposal.home), altering.write_whole, Path.unlink
    acts = 0

    def counted() -> None:
        nonlocal acts
        acts += 1
        if acts > left:
            raise KilledError

    monkeypatch.setattr(altering, "write_whole", lambda path, text: (counted(), write(path, text)))
    monkeypatch.setattr(Path, "unlink", lambda path, **how: (counted(), unlink(path, **how)))
    try:
        alter(proposal, Alteration(NEW, {"by": "ann", "at": "now"}))
        alter(proposal, Alteration(BACK, None))
        is_cut = False
    except KilledError:
        is_cut = True
    monkeypatch.undo()
    finish_altering(home)
    is_there = proposal.accepted() is not None
    assert texts(home) == ({change.path: change.after for change in NEW} if is_there else before)
    assert is_there is (0 < left < 8)
    assert is_cut is (left < 14)
    assert not (proposal.folder / altering.NOTE).exists()


def test_a_file_that_is_not_as_it_was_is_refused_before_anything_is_written(proposal: Proposal) -> None:
    (proposal.home / "data/memory.xml").write_text("<memory><mine/></memory>")
    before = texts(proposal.home)
    with pytest.raises(RequestError, match=r"data/memory.xml was altered meanwhile"):
        alter(proposal, Alteration(NEW, {}))
    assert texts(proposal.home) == before
