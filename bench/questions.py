"""What a question to the user's code costs, and a script without its worker: python bench/questions.py"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

from narval.agent.agent import AgentState
from narval.core.definitions.library import Library
from narval.files.found_files import ModuleText
from narval.files.modules import ModulePackage, key_of
from narval.kinds.process.calls.questions import QuestionAnswerer
from narval.system.scripts.interpreters import Script, run

TOKEN = {
    "id": 5, "complete": False, "node": {"name": "bill", "type": "task", "custom": {}, "arcs": []},
    "environment": {"sum": "7"}, "parents": [], "sets": [],
    "process": {"run": 9, "name": "shop.order", "state": "executing", "environment": {"customer": "Ann"}},
}  # fmt: skip
MODULE = "from narval import predicate\n@predicate\ndef paid(token): return 'sum' in token.environment\n"


def main() -> None:
    """Ask, time after time."""
    module = ModuleText.of("modules/w.py", MODULE.encode())
    imported = ModulePackage(lambda group: iter([module]) if group == "w" else None).load(["w"])
    functions = imported.modules["w"].functions
    asking = QuestionAnswerer(lambda run, definition: functions[key_of(definition)])  # type: ignore[arg-type]
    engine = SimpleNamespace(kind="process", token_view=lambda definition, state, token: TOKEN)
    asker: Any = SimpleNamespace(
        kind="process", library=None, engine=engine, definition=None, state=None, transient={}
    )
    agent = AgentState(Library(imported.modules["w"].found))
    paid = partial(asking.ask, agent, asker, "predicate:paid", {"token": 5}, 0.0)
    tell("a question", paid, 2000)
    for language, text in (("js", "token.id == 5"), ("python", "token.id == 5")):
        script = Script("s", text, language, TOKEN, {"5": TOKEN})
        tell(f"a script in {language}, without its worker", partial(run, script, print), 100)
    asking.close()


def tell(what: str, work: Callable[[], Any], times: int) -> None:
    """The median and the worst of so many times, in microseconds."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        found.append((time.perf_counter() - began) * 1e6)
    print(f"{what}: median {statistics.median(found):,.0f} us, worst {max(found):,.0f} us of {times:,}")


if __name__ == "__main__":
    main()
