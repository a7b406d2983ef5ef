"""The text of a version of a definition, from its stored bytes."""

from __future__ import annotations

from narval.core.elements.element import parse
from narval.core.kinds import KINDS
from narval.files.found_files import ModuleText

MODULE = "module"
"""The kind under which the store keeps whole modules."""


def text_of(kind: str, path: str, data: bytes) -> str:
    """The text of a version: XML, the text of a kind that is not XML, or a module, file after file."""
    if kind == MODULE:
        module = ModuleText.of(path, data)
        files = [(name, source.data.decode("utf-8", "replace")) for name, source in module.files.items()]
        return "\n".join(f"# --- {path}/{name}\n{text}" if name else text for name, text in sorted(files))
    row = KINDS.get(kind)
    if row is not None and row.suffixes and not row.roots:
        return parse(data).text or ""
    return data.decode("utf-8", "replace")
