"""The files that programs create: when they are up to date, and which may be half made (A9)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from narval.calls.programs import created_files
from narval.calls.programs.created_files import CreatedFiles, is_up_to_date
from narval.core.engines.view import FileTimes


def test_A9_a_file_is_looked_at_once_though_many_states_need_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for moment, name in enumerate(("source", "one", "two", "late")):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, ns=(moment, moment))
    looked: list[str] = []
    stat = os.stat
    monkeypatch.setattr(os, "stat", lambda path: (looked.append(Path(path).name), stat(path))[1])
    folder, times = str(tmp_path), FileTimes()
    assert is_up_to_date(folder, ("one",), ("source",), times)
    assert is_up_to_date(folder, ("two",), ("source", "one"), times)
    assert not is_up_to_date(folder, ("one",), ("late",), times)
    assert not is_up_to_date(folder, ("none",), (), times)
    assert is_up_to_date(folder, ("*o*",), ("source",), times)
    assert sorted(looked[:5]) == ["late", "none", "one", "source", "two"]


def test_A9_what_may_be_half_made_is_recorded_before_its_program_begins(tmp_path: Path) -> None:
    marks, folder, names = tmp_path / "marks", str(tmp_path), ("out", "other")
    former = CreatedFiles(marks)
    former.begin(folder, names)
    for name in names:
        (tmp_path / name).touch()
    former.complete(folder, ["other"])
    after_a_kill = CreatedFiles(marks)
    assert not after_a_kill.are_up_to_date(folder, names, (), FileTimes())
    assert after_a_kill.are_up_to_date(folder, ["other"], (), FileTimes())
    after_a_kill.complete(folder, ["out"])
    assert after_a_kill.are_up_to_date(folder, names, (), FileTimes())
    former.close()
    assert marks.exists(), "another program goes on with it"
    after_a_kill.close()
    assert not marks.exists(), "nothing is left of it"


def test_the_record_of_what_may_be_half_made_does_not_grow_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(created_files, "MOST_LINES", 8)
    record, folder = tmp_path / "record", str(tmp_path)
    created = CreatedFiles(record)
    created.begin(folder, ["lost"])
    for number in range(50):
        created.begin(folder, [f"out{number}"])
        created.complete(folder, [f"out{number}"])
        assert len(record.read_text().split()) <= 10
    (tmp_path / "lost").touch()
    assert not CreatedFiles(record).are_up_to_date(folder, ["lost"], (), FileTimes())
    created.close()
    assert record.read_text() == f"+{tmp_path}/lost\n"
