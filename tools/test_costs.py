"""A plugin of pytest: the processor time of each test, of its process and of the programs it waited for.

`python -m pytest -p tools.test_costs --costs=FILE …` writes a line a test, the dearest first, then one a file
and one a folder. Wall time says little on a machine that others use; processor time can be compared. (`=` is
needed: pytest reads its settings before it knows the option.)
"""

from __future__ import annotations

import os
import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

NAME = "processor seconds"
TICKS = os.sysconf("SC_CLK_TCK")


class Meter:
    """The processor seconds of this process, of those it waited for, and of all that it or they started."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def seconds(self) -> float:
        both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(usage.ru_utime + usage.ru_stime for usage in both) + self._at_work() / TICKS

    def _at_work(self) -> int:
        """What those cost that are at work: each with those that it waited for."""
        now = {name for name in os.listdir("/proc") if name.isdigit()}
        self._parents = {
            name: self._parents.get(name) or parent
            for name in now
            if (parent := self._parents.get(name) or self._stat(name)[1])
        }
        mine, ours = str(os.getpid()), 0
        for name in self._parents:
            ancestor = self._parents.get(name)
            while ancestor is not None and ancestor != mine:
                ancestor = self._parents.get(ancestor)
            if ancestor == mine:
                ours += sum(int(ticks) for ticks in self._stat(name)[11:15])
        return ours

    @staticmethod
    def _stat(name: str) -> list[str]:
        """State, parent, and what else stands behind the name of a process."""
        try:
            return Path(f"/proc/{name}/stat").read_text().rpartition(") ")[2].split()
        except OSError:
            return ["", "", *["0"] * 13]


class Costs:
    def __init__(self, path: str | None) -> None:
        self._path = path
        self._meter = Meter()
        self._before = self._meter.seconds()
        self._of_tests: Counter[str] = Counter()

    def pytest_collection_finish(self) -> None:
        self._before = self._meter.seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        report = yield
        if report.when == "teardown":
            report.user_properties = [*report.user_properties, (NAME, self._meter.seconds() - self._before)]
            self._before = self._meter.seconds()
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._of_tests[report.nodeid] += sum(value for name, value in report.user_properties if name == NAME)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._path is None or hasattr(session.config, "workerinput"):
            return
        files: Counter[str] = Counter()
        folders: Counter[str] = Counter()
        for test, seconds in self._of_tests.items():
            file = test.partition("::")[0]
            files[file] += seconds
            for folder in Path(file).parents:
                folders[f"{folder}/"] += seconds
        lines = [
            f"{seconds:9.3f} {name}\n"
            for costs in (self._of_tests, files, folders)
            for name, seconds in costs.most_common()
        ]
        Path(self._path).write_text("".join(lines))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", metavar="FILE", help="write the processor time of each test into FILE")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Costs(config.getoption("--costs")))
