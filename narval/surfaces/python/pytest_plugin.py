"""The pytest plugin `narval`: a fixture `agent` on a home in memory, and scenarios as tests.

A test with that fixture fails if a run of the agent failed, unless its mark `runs_fail` expects that.

Files with a name `*.scenario.xml`, and XML files within a folder `scenarios` whose first element is a
`scenario`, are collected: each is one test, on the home that contains it or that the ini option `narval_home`
names. The modules for that are imported only if there is such a file.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from narval.surfaces.python.agent import Agent
    from narval.trials.simulate.report import SimulationReport
    from narval.trials.simulate.simulated_home import SimulatedHome

HOME = "narval_home"
LONGEST_STORY = 300
"""The most lines shown of a failed scenario's story, the last ones."""

_STAGES: pytest.StashKey[dict[Path, SimulatedHome]] = pytest.StashKey()

_AGENT: pytest.StashKey[Agent] = pytest.StashKey()
"""The agent of a test."""

FAILS = "runs_fail"
"""The mark of a test whose runs must fail."""

CLOCK = "clock"
"""The mark of a test whose agent has a simulated clock."""


@pytest.fixture
def agent(request: pytest.FixtureRequest) -> Iterator[Agent]:
    """An agent with an empty memory and nothing on disk; it is closed when the test ends.

    The test fails if a run of it failed, unless it has the mark `runs_fail`. With the mark `clock` its time
    is simulated: it begins at the moment that the mark names, and passes by `agent.elapse`.
    """
    import narval

    mark = request.node.get_closest_marker(CLOCK)
    with narval.open(clock=None if mark is None else narval.SimulatedClock(*mark.args)) as opened:
        request.node.stash[_AGENT] = opened
        yield opened


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks."""
    simulated = "the time of the fixture `agent` is simulated, from this moment on"
    config.addinivalue_line("markers", f"{CLOCK}(moment): {simulated}")
    says = "a run of each of these definitions fails; without names, some run does"
    config.addinivalue_line("markers", f"{FAILS}(*names): {says}")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Fail a test if a run of its agent failed, or if one was expected to fail and none did."""
    try:
        result = yield
    except BaseException:
        if failures := [text for _, text in _failed_runs(pyfuncitem)]:
            pyfuncitem.add_report_section("call", "runs that failed", "\n".join(failures))
        raise
    failed, mark = list(_failed_runs(pyfuncitem)), pyfuncitem.get_closest_marker(FAILS)
    expected = set(mark.args) if mark is not None else set()
    names = {name for name, _ in failed}
    wrong = [text for name, text in failed if mark is None or (expected and name not in expected)]
    wrong += [f"expected a run of {name} to fail, and none did" for name in sorted(expected - names)]
    if mark is not None and not expected and not failed:
        wrong.append("expected a run to fail, and none did")
    if names - expected and wrong:
        wrong.append(f'where a run is to fail, say so: @pytest.mark.{FAILS}("{min(names - expected)}")')
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)
    return result


def _failed_runs(item: pytest.Item) -> Iterator[tuple[str, str]]:
    """The definition of each failed top-level run of a test, and why it failed, with file and line."""
    if (agent := item.stash.get(_AGENT, None)) is None:
        return
    for run in agent.runs("failed"):
        if run["parent"] is None:
            yield run["name"], f"run {run['eid']} of {run['name']} {agent.why(run['eid'])['reason']}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the ini option with the home of scenarios."""
    parser.addini(HOME, "the home of scenarios, instead of the one that they lie in", default="")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the files that are scenarios."""
    if file_path.suffix != ".xml":
        return None
    if not file_path.name.endswith(".scenario.xml") and "scenarios" not in file_path.parent.parts:
        return None
    from narval.trials.simulate.files import is_scenario_file

    if not is_scenario_file(file_path):
        return None
    collected: pytest.Collector = ScenarioFile.from_parent(parent, path=file_path)
    return collected


class ScenarioFile(pytest.File):
    """A file with a scenario."""

    def collect(self) -> Iterator[pytest.Item]:
        """The one test in it."""
        from narval.trials.simulate.parser import name_of

        yield ScenarioItem.from_parent(self, name=name_of(str(self.path)))


class NotAsExpected(Exception):  # noqa: N818 - it is a report, not an error
    """A scenario with an unexpected result."""


class ScenarioItem(pytest.Item):
    """The test that plays a scenario."""

    def runtest(self) -> None:
        """Play it. Raises NotAsExpected with its story."""
        import asyncio

        from narval.trials.simulate import files
        from narval.trials.simulate.simulation import play_scenario, start_of

        simulated_home = self._stage()
        scenario = files.read_file(simulated_home, self.path)
        report = asyncio.run(play_scenario(simulated_home, scenario, start_of(simulated_home, scenario)))
        if not report.well:
            raise NotAsExpected("\n".join(_failures(report)))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The story and the expectations of a scenario; for an error of narval, its message."""
        from narval.core.errors import NarvalError

        if isinstance(excinfo.value, NotAsExpected | NarvalError):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """The file of the scenario, and its title in reports."""
        return self.path, 0, f"scenario {self.name}"

    def _stage(self) -> SimulatedHome:
        """The simulated home; its definitions are read once."""
        from narval.files.home import Home
        from narval.trials.simulate.simulated_home import simulated_home

        stages = self.config.stash.setdefault(_STAGES, {})
        path = self._home()
        if path not in stages:
            stages[path] = simulated_home(Home.find(path))
        return stages[path]

    def _home(self) -> Path:
        chosen = str(self.config.getini(HOME))
        if chosen:
            return self.config.rootpath / chosen
        for folder in self.path.parents:
            if (folder / "recipes").is_dir() or (folder / "modules").is_dir():
                return folder
        pytest.fail(f"{self.path} lies in no home; name one: {HOME} in the settings of pytest", pytrace=False)


def _failures(report: SimulationReport) -> Iterator[str]:
    """The first difference, as a summary shows only one line; then the story and the result of a scenario."""
    from narval.surfaces.cli.render.simulation import StoryWriter, difference, ending

    yield from [difference(judged) for judged in report.judged if not judged.met][:1]
    story = [text for text, _ in StoryWriter(report.zone).write(report.lines)]
    if len(story) > LONGEST_STORY:
        yield f"… {len(story) - LONGEST_STORY} lines before"
    yield from story[-LONGEST_STORY:]
    yield from (text for text, _ in ending(report))
