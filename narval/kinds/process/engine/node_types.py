"""The types of nodes, and the hooks of the user's classes for them (sections 2 and 10).

`node` completes on the default arc, and so does any undefined type. `wait` waits to be completed, or for
memory. The others call something: an action, a transform, a run, a script, or the user's class for the type.
"""

from __future__ import annotations

from narval.kinds.process.engine.decision import ProcessDecision
from narval.kinds.process.language.definition import BUILT_IN, Node

NODE = "node"
NESTED = "nested"
SCRIPT = "script"
WAIT = "wait"


def hooks(decision: ProcessDecision, node: Node) -> frozenset[str]:
    """The hooks of the user's class for the type of a node; none if there is no such class."""
    node_type = decision.view.definition("node-type", node.type) if node.type not in BUILT_IN else None
    return node_type.hooks if node_type is not None else frozenset()


def given_by(decision: ProcessDecision, node: Node) -> tuple[str, ...] | None:
    """The names of the elements that the user's class for the type of a node may give; None: any."""
    node_type = decision.view.definition("node-type", node.type) if node.type not in BUILT_IN else None
    return node_type.gives if node_type is not None else None
