"""Access to files: which actions may write them, and read what was written, as far as their authors say.

A file that narval wrote keeps the labels of what was written into it, for those who read it again.
"""

from __future__ import annotations

from narval.core.definitions.action.definition import Action
from narval.core.memory.labels import FILE


def may_write(action: Action) -> bool:
    """True if an action may write files: it acts outside memory, and declares no needs, or a folder."""
    needs = action.needs
    return action.outside and (needs is None or any(folder.endswith(" rw") for folder in needs.folders))


def may_read(action: Action) -> bool:
    """True if an action may give what stands in files: it brings something in that has the label of files or
    must have a path, or the action declares no needs.
    """
    if not (action.label or action.model):
        return False
    return action.label == FILE or gives_paths(action) or action.needs is None


def gives_paths(action: Action) -> bool:
    """True if an output of an action must have a path."""
    return any("@path" in text for output in action.prototype.outputs for text in output.match)
