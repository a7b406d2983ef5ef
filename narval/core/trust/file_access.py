"""Access to files: which actions may write them, and read what was written, as far as their authors say.

A file that narval wrote keeps the labels of what was written into it, for those who read it again.
"""

from __future__ import annotations

from collections.abc import Mapping

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


def may_copy(action: Action) -> bool:
    """True if an action may put what stands in one file into another, and say so: it gives paths, and reaches
    the folders of two elements that name files, or declares no needs.
    """
    needs = action.needs
    is_able = needs is None or sum("/@folder}" in folder for folder in needs.folders) > 1
    return may_write(action) and gives_paths(action) and is_able


def may_be_closed(attributes: Mapping[str, str | None]) -> bool:
    """True if a file may be in a part of the home that is closed, by the attributes of the element that names
    it, as far as they are known: such an element names its `folder`.
    """
    return attributes.get("folder", "") != ""


def gives_paths(action: Action) -> bool:
    """True if an output of an action must have a path."""
    return any("@path" in text for output in action.prototype.outputs for text in output.match)
