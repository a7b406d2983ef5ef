"""The table of operators that need nothing from outside, by name; all others make requests."""

from __future__ import annotations

from collections.abc import Mapping

from narval.kinds.dataflow.engine.network.operators import aggregates, join, relations, rows, sets, values
from narval.kinds.dataflow.engine.network.operators.flow_operator import FlowOperator

INNER_OPERATORS: Mapping[str, type[FlowOperator]] = {
    "accumulate": relations.Accumulate,
    "aggregate": aggregates.Aggregate,
    "atleastone": rows.AtLeastOne,
    "compare": values.Compare,
    "constructfunction": values.ConstructFunction,
    "difference": sets.Difference,
    "formatrelation": relations.FormatRelation,
    "group": aggregates.Group,
    "headtail": rows.HeadTail,
    "join": join.Join,
    "makestream2": values.InlineStream,
    "merge": rows.Merge,
    "namerelation": relations.NameRelation,
    "noop": values.Noop,
    "project": rows.Project,
    "relsprintf": rows.RelationFormat,
    "select": rows.Select,
    "sort": relations.Sort,
    "sprintf": values.TextOfValues,
    "stream": relations.Stream,
    "union": sets.Union,
}
"""The operators by name."""
