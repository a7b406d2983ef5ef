"""The flow of work: people are shown its inputs, and their answers have the labels of the inputs."""

from __future__ import annotations

from narval.core.definitions.library import Library
from narval.core.definitions.people.directory import WRITTEN
from narval.core.patterns.pattern import condition
from narval.core.trust.flow import Flow, InMemory
from narval.kinds.work.language.definition import WorkDefinition


def flow(work: WorkDefinition, library: Library) -> Flow:
    """The flow of elements through items of work."""
    takes = tuple(InMemory(slot.condition) for slot in work.prototype.inputs)
    answers = tuple(output.condition for output in work.prototype.outputs)
    made = answers or (condition(work.answer_name),)
    return Flow(holds=takes, makes=made, written=frozenset(work.ways).intersection(WRITTEN))
