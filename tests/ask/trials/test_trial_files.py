"""Results of trials: kept for a day, for who asked, in a bounded number and size (M57)."""

from __future__ import annotations

from pathlib import Path

import pytest

from narval.ask.trials import trials
from narval.ask.trials.trials import KEPT, TrialFiles

NOON = 1_800_000_000.0


def test_M57_a_result_is_kept_for_a_day_for_who_asked(tmp_path: Path) -> None:
    files = TrialFiles(tmp_path / "trials")
    assert files.get("a", "ann", NOON) is None
    files.keep("a", "ann", {"n": 1}, NOON)
    assert files.get("a", "ann", NOON + KEPT - 1) == {"n": 1}
    assert files.get("a", "ann", NOON + KEPT + 1) is None
    assert files.get("a", "ben", NOON) is None
    assert files.get("a", None, NOON) is None
    assert files.get("../a", "ann", NOON) is None


def test_M57_only_the_daemons_user_can_read_them(tmp_path: Path) -> None:
    TrialFiles(tmp_path / "trials").keep("a", "ann", {}, NOON)
    (file,) = (tmp_path / "trials").iterdir()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_M57_the_oldest_give_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "MOST", 3)
    files = TrialFiles(tmp_path)
    for number in range(5):
        files.keep(str(number), "ann", {"n": number}, NOON + number)
    assert [n for n in range(5) if files.get(str(n), "ann", NOON)] == [2, 3, 4]
    monkeypatch.setattr(trials, "MOST_BYTES", 1_000)
    files.keep("long", "ann", {"n": "x" * 900}, NOON + 9)
    assert [n for n in range(5) if files.get(str(n), "ann", NOON)] == []
    assert files.get("long", "ann", NOON) == {"n": "x" * 900}


def test_M57_what_is_over_is_swept_and_what_is_damaged_counts_as_none(tmp_path: Path) -> None:
    files = TrialFiles(tmp_path)
    files.keep("old", "ann", {"n": 1}, NOON)
    next(tmp_path.iterdir()).write_text("{")
    assert files.get("old", "ann", NOON) is None
    files.keep("old", "ann", {"n": 1}, NOON)
    files.keep("new", "ann", {"n": 2}, NOON + KEPT + 1)
    assert len(list(tmp_path.iterdir())) == 1
