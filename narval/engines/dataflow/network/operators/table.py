"""The operators that need nothing from outside, by name; all others are requests."""

from __future__ import annotations

from collections.abc import Mapping

from narval.engines.dataflow.network.operators.aggregates import Aggregate
from narval.engines.dataflow.network.operators.flow_operator import FlowOperator
from narval.engines.dataflow.network.operators.join import Join
from narval.engines.dataflow.network.operators.relations import (
    Accumulate,
    FormatRelation,
    NameRelation,
    Sort,
    Stream,
)
from narval.engines.dataflow.network.operators.rows import (
    AtLeastOne,
    HeadTail,
    Merge,
    Project,
    RelationFormat,
    Select,
)
from narval.engines.dataflow.network.operators.sets import Difference, Union
from narval.engines.dataflow.network.operators.values import (
    Compare,
    ConstructFunction,
    InlineStream,
    Noop,
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
