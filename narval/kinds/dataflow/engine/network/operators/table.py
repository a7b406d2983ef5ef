"""The table of operators that need nothing from outside, by name; all others make requests."""

from __future__ import annotations

from collections.abc import Mapping

from narval.kinds.dataflow.engine.network.operators.flow_operator import FlowOperator
from narval.kinds.dataflow.engine.network.operators.join import Difference, Join, Union
from narval.kinds.dataflow.engine.network.operators.relations import (
    Accumulate,
    Aggregate,
    FormatRelation,
    Group,
    NameRelation,
    Sort,
    Stream,
)
from narval.kinds.dataflow.engine.network.operators.rows import (
    AtLeastOne,
    Compare,
    ConstructFunction,
    HeadTail,
    InlineStream,
    Merge,
    Noop,
    Project,
    RelationFormat,
    Select,
    TextOfValues,
)

INNER_OPERATORS: Mapping[str, type[FlowOperator]] = {
    "accumulate": Accumulate,
    "aggregate": Aggregate,
    "atleastone": AtLeastOne,
    "compare": Compare,
    "constructfunction": ConstructFunction,
    "difference": Difference,
    "formatrelation": FormatRelation,
    "group": Group,
    "headtail": HeadTail,
    "join": Join,
    "makestream2": InlineStream,
    "merge": Merge,
    "namerelation": NameRelation,
    "noop": Noop,
    "project": Project,
    "relsprintf": RelationFormat,
    "select": Select,
    "sort": Sort,
    "sprintf": TextOfValues,
    "stream": Stream,
    "union": Union,
}
"""The operators by name."""
