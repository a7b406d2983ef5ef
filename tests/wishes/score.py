"""The score of a language model: how many wishes it turns into definitions that are valid, and right."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from narval.core.definitions.library import RunDefinition
from narval.core.errors import NarvalError
from narval.core.source.text import Source
from narval.files.home import Home
from narval.files.outside.services import Service
from narval.files.proposals.folder import READY, TEXTS, Proposal
from narval.files.reading import load
from narval.trials.propose.driver import TOKENS, Example, propose
from narval.trials.propose.driver import Wish as Proposed
from narval.trials.propose.protocol import MOST_ROUNDS
from narval.trials.simulate.parser import read_scenario
from narval.trials.simulate.simulated_home import simulated_home
from tests.places import ROOT
from tests.wishes.wishes import ASKED, Wish, files_of, played

LONGEST = 6
"""The most elements that a model is shown as examples of a wish."""


class Score(msgspec.Struct, frozen=True):
    """What came of a wish: its state, the rounds until it had no faults, and how many of its scenarios go as
    expected.
    """

    example: str
    state: str
    rounds: int
    passed: int
    scenarios: int
    tokens: int = 0
    money: float = 0.0
    why: str | None = None
    """The reason where no model answered."""

    @property
    def is_right(self) -> bool:
        """True if all scenarios go as expected."""
        return self.passed == self.scenarios


def score(home: Path, wish: Wish, model: str = "") -> Score:
    """Have a model propose what somebody wishes, and play the scenarios of its example with that.

    The model sees one element of each name that the scenarios let come, as a person would show them.
    """
    scenarios = _scenarios(wish)
    asked = Proposed(text=wish.says, model=model, name=wish.example, examples=tuple(_examples(scenarios)))
    proposal = propose(Home(home), asked)
    about = proposal.about()
    passed = _passed(home, wish, proposal) if about["state"] == READY else 0
    cost = about["tokens"], about["money"]
    faults = [one["faults"] for one in proposal.rounds()]
    rounds = faults.index([]) + 1 if [] in faults else len(faults)
    return Score(wish.example, about["state"], rounds, passed, len(scenarios), *cost, about["why"])


HEAD = (
    "| model | date | wishes | valid at once | valid after rounds | all scenarios passed | tokens | money "
    "| settings |\n|---|---|---|---|---|---|---|---|---|"
)
"""The head of the table of models that were tried, in docs/reference/proposals.md."""


def table_row(model: Service, day: str, scores: Iterable[Score]) -> str:
    """The row of a model that was tried on a day."""
    rows = list(scores)
    ready = [one for one in rows if one.state == READY]
    limit = "" if model.seconds is None else f", {model.seconds:g} s an answer"
    cells = [
        model.model,
        day,
        len(rows),
        sum(one.rounds == 1 for one in ready),
        len(ready),
        sum(one.is_right for one in rows),
        f"{sum(one.tokens for one in rows):,}",
        f"{sum(one.money for one in rows):.4g}",
        f"{MOST_ROUNDS} rounds of {TOKENS:,} tokens, {LONGEST} examples at most{limit}",
    ]
    return f"| {' | '.join(map(str, cells))} |"


def _scenarios(wish: Wish) -> list[Path]:
    """The scenarios of a wish, but those of another form of its example, a process or tasks."""
    return [path for path in files_of(wish, "scenarios/") if not path.stem.endswith((".process", ".task"))]


def _examples(scenarios: Iterable[Path]) -> list[Example]:
    named: dict[str, Example] = {}
    for path in scenarios:
        for arrival in read_scenario(Source(str(path), path.read_bytes())).arrivals:
            for xml in arrival.elements:
                text = xml.decode()
                name = re.sub(r"^<([^\s/>]+).*", r"\1", text, flags=re.DOTALL)
                named.setdefault(name, Example(len(named) + 1, text))
    return list(named.values())[:LONGEST]


def _passed(home: Path, wish: Wish, proposal: Proposal) -> int:
    """The number of scenarios of a wish that go as expected with a proposal, beside what every home asks."""
    with tempfile.TemporaryDirectory(prefix="narval-wish-") as scratch:
        trial = Path(scratch)
        shutil.copytree(home / "recipes", trial / "recipes")
        shutil.copytree(proposal.folder / TEXTS, trial / "recipes" / "proposed")
        (trial / "recipes/proposed/memory.xml").unlink(missing_ok=True)
        for name in ASKED:
            (trial / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, trial / name)
        (trial / "scenarios").mkdir()
        added = [one for one in load(trial).library if "/proposed/" in one.path]
        starts = _started(proposal.texts(), [one.full_name for one in added if _begins(one)])
        works = [one.full_name for one in added if one.kind == "work"]
        for path in _scenarios(wish):
            text = _renamed(path.read_text("utf-8"), starts, works)
            (trial / "scenarios" / path.name).write_text(text, "utf-8")
        try:
            return sum(played(simulated_home(Home.find(trial)), trial / "scenarios"))
        except NarvalError:
            return 0


def _begins(one: object) -> bool:
    return isinstance(one, RunDefinition) and one.kind != "work"


def _started(texts: Mapping[str, str], names: Sequence[str]) -> list[str]:
    """The definitions that a proposal starts; where it does not say so, those that no other of it calls."""
    every = "".join(texts.values())
    said = re.findall(r'<start-plan recipe="([^"]+)"', every)
    return said or [name for name in names if not re.search(rf'[">]{re.escape(name)}["<]', every)]


def _renamed(text: str, starts: Sequence[str], works: Sequence[str]) -> str:
    """A scenario about the definitions of a proposal: it starts those, and asks its works in their order.

    How many runs there are of what is not told: that is how the example does it, not what was wished.
    """
    named = list(dict.fromkeys(re.findall(r'work(?: name)?="(examples\.[^"]*)"', text)))
    for old, new in zip(named, [*works, *works[-1:] * len(named)], strict=False):
        text = text if old in works else text.replace(f'"{old}"', f'"{new}"')
    text = re.sub(r'<run recipe="examples\.[^>]*/>', '<element match="never" count="0"/>', text)
    if starts:
        first, *others = re.split(r'<start recipe="examples\.[^"]*"/>', text)
        every = "".join(f'<start recipe="{name}"/>' for name in starts)
        text = f"{first}{every}{''.join(others)}" if others else first
        text = re.sub(r'recipe="examples\.[^"]*"', f'recipe="{starts[0]}"', text)
    return text
