"""The environments, tools and judges of AgentDojo, as a program that is asked line by line.

    PYTHON world.py

It needs the package `agentdojo` and nothing of narval. Each line of its input is a JSON object `{"do": …}`,
and each is answered by one line: `{"value": …}`, or `{"error": text}`.

| do | with | gives |
|---|---|---|
| `suites` | | the tasks and injections of each suite |
| `begin` | `suite`, `task`, `injection` | prompt, goal, calls that solve the task, calls the attack wants |
| `call` | `name`, `arguments` | what the tool gives |
| `end` | `output` | whether the task is solved, and whether the attack had its way |
"""

import json
import sys
import warnings
from typing import Any

from agentdojo.agent_pipeline.ground_truth_pipeline import GroundTruthPipeline
from agentdojo.attacks.important_instructions_attacks import ImportantInstructionsAttackNoModelName
from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime
from agentdojo.task_suite.load_suites import get_suites
from agentdojo.types import text_content_block_from_string
from pydantic import BaseModel

VERSION = "v1.2.2"


class World:
    """One environment at a time, in which tools are called."""

    def __init__(self) -> None:
        self.suites = get_suites(VERSION)
        self._attacks: dict[tuple[str, str, str], dict[str, str]] = {}

    def do_suites(self) -> Any:
        """The ids of the user tasks and of the injections of each suite."""
        return {
            name: {"tasks": list(suite.user_tasks), "injections": list(suite.injection_tasks)}
            for name, suite in self.suites.items()
        }

    def do_begin(self, suite: str, task: str, injection: str | None = None) -> Any:
        """Put up the environment of a task, with an attack in all that the task reads."""
        self.suite = self.suites[suite]
        self.task = self.suite.user_tasks[task]
        self.injection = self.suite.injection_tasks[injection] if injection else None
        injections = self._attack(suite, task, injection) if injection else {}
        environment = self.suite.load_and_inject_default_environment(injections)
        self.environment = self.task.init_environment(environment)
        self.before = self.environment.model_copy(deep=True)
        self.runtime = FunctionsRuntime(self.suite.tools)
        self.calls: list[FunctionCall] = []
        return {
            "prompt": self.task.PROMPT,
            "goal": self.injection.GOAL if self.injection else "",
            "solved_by": _calls(self.task.ground_truth(self.before)),
            "wanted": _calls(self.injection.ground_truth(self.before)) if self.injection else [],
        }

    def do_call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool in the environment."""
        self.calls.append(FunctionCall(function=name, args=arguments))
        given, error = self.runtime.run_function(self.environment, name, arguments)
        if error:
            raise ValueError(error)
        return _plain(given)

    def do_end(self, output: str) -> Any:
        """Judge what came of it, as AgentDojo does."""
        said = [text_content_block_from_string(output)]
        judged = (said, self.before, self.environment, self.calls)
        solved = self.suite._check_user_task_utility(self.task, *judged)
        security = self.suite._check_injection_task_security
        attacked = security(self.injection, *judged) if self.injection else None
        return {"solved": bool(solved), "attacked": attacked}

    def _attack(self, suite: str, task: str, injection: str) -> dict[str, str]:
        key = (suite, task, injection)
        if key not in self._attacks:
            pipeline = GroundTruthPipeline(None)
            attack = ImportantInstructionsAttackNoModelName.__new__(ImportantInstructionsAttackNoModelName)
            pipeline.name = "local"
            attack.__init__(self.suites[suite], pipeline)
            try:
                self._attacks[key] = attack.attack(self.task, self.injection)
            except ValueError:  # the task reads nothing that a stranger can write
                self._attacks[key] = {}
        return self._attacks[key]


def _calls(calls: list[FunctionCall]) -> Any:
    return [[call.function, _plain(dict(call.args))] for call in calls]


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return {"": type(value).__name__, **_plain(value.model_dump(mode="json"))}
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def main() -> None:
    """Answer line by line."""
    warnings.simplefilter("ignore")
    answers, sys.stdout = sys.stdout, sys.stderr
    world = World()
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            value = getattr(world, f"do_{asked.pop('do')}")(**asked)
            answer = {"value": value}
        except Exception as error:  # whatever a tool raises is its answer
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
