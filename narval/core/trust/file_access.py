"""Access to files: which actions may write files, and read what was written, according to their authors.

A file that narval wrote keeps the labels of its contents, for when it is read again.
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
    """True if an action may return file contents: it brings something in that is labelled as a file or must
    have a path, or it declares no needs.
    """
    if not (action.label or action.model):
        return False
    return action.label == FILE or gives_paths(action) or action.needs is None


def may_copy(action: Action) -> bool:
    """True if an action may copy one file into another and report it: it returns paths, and needs the folders
    of two elements that name files, or declares no needs.
    """
    needs = action.needs
    is_able = needs is None or sum("/@folder}" in folder for folder in needs.folders) > 1
    return may_write(action) and gives_paths(action) and is_able


def may_be_closed(attributes: Mapping[str, str | None]) -> bool:
    """True if a file may be in a closed part of the home, by the known attributes of the element that names
    it: such an element names its `folder`.
    """
    return attributes.get("folder", "") != ""


def gives_paths(action: Action) -> bool:
    """True if an output of an action must have a path."""
    return any("@path" in text for output in action.prototype.outputs for text in output.match)
