"""The texts of a proposal are replaced together, and are never gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from narval.files.proposals.altering import finish_altering
from narval.files.proposals.folder import FORMER, TEXTS, Proposal, former_of

FORMER_TEXTS = {"a.xml": "<a/>", "b.xml": "<b/>"}


@pytest.fixture
def proposal(tmp_path: Path) -> Proposal:
    made = Proposal(tmp_path, "bills")
    assert made.begin({"state": "drafting"}, "note my bills")
    made.put_texts(FORMER_TEXTS)
    return made


def test_texts_take_the_place_of_all_that_were_there(proposal: Proposal) -> None:
    proposal.put_texts({"b.xml": "<c/>"})
    assert proposal.texts() == {"b.xml": "<c/>"}
    assert sorted(path.name for path in proposal.folder.iterdir()) == ["proposal.json", TEXTS, "wish.txt"]


def test_texts_stay_where_others_cannot_take_their_place(
    proposal: Proposal, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def fails(path: Path, target: Path) -> Path:
        if path.name not in (TEXTS, FORMER):
            raise OSError("the disk is full")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(OSError, match="full"):
        proposal.put_texts({"b.xml": "<c/>"})
    assert proposal.texts() == FORMER_TEXTS
    assert {path.name for path in proposal.folder.iterdir()} == {"proposal.json", TEXTS, "wish.txt"}


def test_a_program_that_is_killed_while_texts_are_replaced_leaves_those_of_before(proposal: Proposal) -> None:
    (proposal.folder / TEXTS).rename(proposal.folder / FORMER)
    assert proposal.texts() == FORMER_TEXTS
    proposal.put_texts({"b.xml": "<c/>"})
    assert proposal.texts() == {"b.xml": "<c/>"}


def test_a_program_that_is_killed_while_a_proposal_is_replaced_leaves_the_one_before(
    proposal: Proposal,
) -> None:
    folder, former = proposal.folder, former_of(proposal.folder)
    half_made = folder.with_name(".bills.x7y8z9ab")
    half_made.mkdir()
    folder.rename(former)
    finish_altering(proposal.home)
    assert proposal.texts() == FORMER_TEXTS
    former.mkdir()  # killed after the second move, while the one before is deleted
    finish_altering(proposal.home)
    assert [path.name for path in folder.parent.iterdir()] == ["bills"]


def test_what_others_keep_beside_proposals_is_left_alone(proposal: Proposal) -> None:
    beside = proposal.folder.parent
    for name in (".git", ".stfolder", ".bills", ".Trash-1000", ".drafty-1a2b3c4d"):
        (beside / name).mkdir()
    (beside / ".gitignore").write_text("*\n")
    (beside / ".bills.x7y8z9ab").symlink_to(proposal.home)
    before = sorted(beside.iterdir())
    finish_altering(proposal.home)
    assert sorted(beside.iterdir()) == before
