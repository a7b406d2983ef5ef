"""Control groups: the one that counts the processes of this program, and groups made within it (A19)."""

from __future__ import annotations

from pathlib import Path

import pytest

from narval.system.cgroup import NoGroupError, find_group, make_group

OLD = "36 25 0:31 / /sys/fs/cgroup/pids rw,nosuid - cgroup cgroup rw,pids"
MEMORY = "35 25 0:30 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory"
NEW = "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"
MIXED = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw"


@pytest.mark.parametrize(
    ("groups", "mounts", "found"),
    [
        ("0::/user.slice/a.service\n", [NEW], "/sys/fs/cgroup/user.slice/a.service"),
        ("0::/\n", [NEW], "/sys/fs/cgroup"),
        ("5:memory:/m\n8:pids:/p\n0::/q\n", [MIXED, MEMORY, OLD], "/sys/fs/cgroup/pids/p"),
        ("8:cpu,pids:/docker/x/p\n", [OLD.replace("/ /", "/docker/x /").replace("pids rw", "pids rw")],
         "/sys/fs/cgroup/pids/p"),
    ],
)  # fmt: skip
def test_A19_the_group_is_found_in_either_hierarchy(groups: str, mounts: list[str], found: str) -> None:
    assert str(find_group(groups, "\n".join(mounts))) == found


@pytest.mark.parametrize(("groups", "mounts"), [("", ""), ("0::/\n", MEMORY), ("5:memory:/\n", MEMORY)])
def test_A19_where_nothing_counts_processes_it_says_so(groups: str, mounts: str) -> None:
    with pytest.raises(NoGroupError, match="no control groups that count processes"):
        find_group(groups, mounts)


def test_A19_groups_within_one_that_has_programs_are_threaded(tmp_path: Path) -> None:
    (tmp_path / "cgroup.subtree_control").write_text("cpu\n")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "cgroup.type").write_text("domain invalid\n")
    assert make_group(tmp_path, "run", 8) == tmp_path / "run"
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+pids"
    assert (tmp_path / "run" / "cgroup.type").read_text() == "threaded"
    assert (tmp_path / "run" / "pids.max").read_text() == "8"
    make_group(tmp_path, "run", None)
    assert (tmp_path / "run" / "pids.max").read_text() == "max"
