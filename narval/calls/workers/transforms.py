"""Transforms: XSLT that can neither write, nor reach the network, nor read outside the allowed folders (N32).

They run in a worker, since a stylesheet can loop. A transform with one plain input gets that element as its
document. One with several inputs, or a list, gets a root `elements` with the elements as children, in the
order of the inputs. Each has its `eid`. The results are all roots of the result tree, or, if the only root is
`elements`, its children. Serialization is ignored: `xsl:output method="html"` makes no difference, and a
result that is only text is refused.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from lxml import etree

from narval.calls import conversion
from narval.calls.context import CallContext, Inputs
from narval.calls.record import Outcome
from narval.calls.workers.frames import Allowance
from narval.core.elements.canonical import MAX_BYTES, careful_parser, parse_untrusted
from narval.core.elements.element import children, local_name
from narval.core.engines.events import OutputElement
from narval.core.errors import ActionError, ElementError
from narval.system.memory_limit import bounded

_MOST_SHEETS = 32
_NAMELESS = "the stylesheet"
_NO_MESSAGE = "unknown error"
_DENIED = re.compile(
    r"(?P<right>read|write|create) rights for (?:string://__STRING__XSLT__)?(?P<what>.*) denied"
)


class TransformError(ActionError):
    """A stylesheet is faulty, failed, or asked for something forbidden."""


class _Folders(etree.Resolver):
    """Resolves every `xsl:include`, `xsl:import` and `document()` from the allowed folders, or not at all.

    lxml's access control applies to `document()` only, and lxml reads includes regardless. So this resolver
    refuses by raising, and never defers to another one.
    """

    def __init__(self, folders: tuple[str, ...]) -> None:
        self.folders = [Path(folder).resolve() for folder in folders]
        self.asked = False

    def resolve(self, system_url: str | None, public_id: str | None, context: Any) -> Any:
        """The document at a place."""
        self.asked = True
        url = system_url or ""
        place = urlsplit(url)
        path = Path(unquote(place.path))
        if place.scheme not in ("", "file") or place.netloc or not path.is_absolute():
            raise _forbidden("read", url)
        path = path.resolve()
        if not any(path.is_relative_to(folder) for folder in self.folders):
            raise _forbidden("read", url)
        try:
            with path.open("rb") as file:
                text = file.read(MAX_BYTES + 1)
            parse_untrusted(text)
        except (OSError, ElementError) as error:
            raise TransformError(f"{path} cannot be read: {error}", "bad-transform") from None
        return self.resolve_string(text, context, base_url=str(path))


class Sheets:
    """Compiled stylesheets, by content. One with several files is compiled each time."""

    def __init__(self) -> None:
        self._compiled: OrderedDict[tuple[str, str, tuple[str, ...]], etree.XSLT] = OrderedDict()

    def sheet(self, path: str, text: bytes, folders: tuple[str, ...]) -> etree.XSLT:
        """The stylesheet, compiled. Raises TransformError."""
        key = (path, hashlib.sha256(text).hexdigest(), folders)
        compiled = self._compiled.get(key)
        if compiled is None:
            resolver = _Folders(folders)
            compiled = _compile(path, text, resolver)
            if resolver.asked:
                return compiled
            self._compiled[key] = compiled
            if len(self._compiled) > _MOST_SHEETS:
                self._compiled.popitem(last=False)
        self._compiled.move_to_end(key)
        return compiled


_SHEETS = Sheets()


def answer(call: CallContext, load: object, allowance: Allowance) -> Outcome:
    """Apply the stylesheet of a call's target to the inputs, within the allowance; return the outcome."""
    path, source = call.target.module_path, call.target.source
    try:
        text = Path(path).read_bytes() if source is None else source
        tree = document(call.inputs)
        with bounded(allowance.memory):
            sheet = _SHEETS.sheet(path, text, allowance.folders)
            return Outcome(_apply(sheet, tree, path))
    except Exception as error:
        return Outcome(problem=conversion.failure(error, path, call.home))


def document(inputs: Inputs) -> etree._Element:
    """The document to which a stylesheet is applied."""
    if len(inputs) == 1:
        (only,) = inputs.values()
        if only is not None and not isinstance(only, list):
            return only.tree()
    root = etree.Element("elements")
    for value in inputs.values():
        listed = value if isinstance(value, list) else [value]
        root.extend(element.tree() for element in listed if element is not None)
    return root


def _compile(path: str, text: bytes, resolver: _Folders) -> etree.XSLT:
    try:
        parse_untrusted(text)
    except ElementError as error:
        place = f"{path or _NAMELESS}:{error.line}:{error.column}"
        raise TransformError(f"{place}: {error}", "bad-transform") from None
    parser = careful_parser()
    parser.resolvers.add(resolver)
    root = etree.fromstring(text, parser, base_url=path or None)
    for child in children(root):
        if local_name(child.tag) == "prototype":  # XSLT allows no such element there (table 2.18)
            root.remove(child)
    others = dict.fromkeys(("write_file", "create_dir", "read_network", "write_network"), False)
    rights = etree.XSLTAccessControl(read_file=bool(resolver.folders), **others)
    try:
        return etree.XSLT(root, access_control=rights)
    except etree.XSLTParseError as error:
        raise TransformError(_report(error, path), "bad-transform") from None


def _apply(sheet: etree.XSLT, source: etree._Element, path: str) -> list[OutputElement]:
    try:
        result = sheet(source)
    except etree.XSLTApplyError as error:
        denied = _DENIED.search(str(error))
        if denied:
            raise _forbidden(denied["right"], denied["what"]) from None
        raise TransformError(_report(error, path), "transform-failed") from None
    for entry in sheet.error_log:  # the texts of xsl:message
        if entry.message != _NO_MESSAGE:
            print(entry.message)  # noqa: T201 - it goes to the log, like all prints of actions
    roots = list(_roots(result))
    if not roots and str(result).strip():
        raise TransformError(
            "expected elements, got text alone; give the text an element around it", "bad-output"
        )
    if len(roots) == 1 and local_name(roots[0].tag) == "elements":
        roots = children(roots[0])
    return conversion.elements(roots)


def _roots(result: etree._XSLTResultTree) -> Iterator[etree._Element]:
    """The elements at the top of a result tree, which may have none or several."""
    first = result.getroot()
    if first is None:
        return
    for node in (*reversed(list(first.itersiblings(preceding=True))), first, *first.itersiblings()):
        if isinstance(node.tag, str):
            yield node


def _report(error: etree.LxmlError, path: str) -> str:
    """The error and its place, from the log of libxslt."""
    messages: dict[str, None] = {}  # in order, each once
    for entry in error.error_log:
        messages[entry.message.partition("\n")[0]] = None
    messages.pop(_NO_MESSAGE, None)
    line = next((entry.line for entry in error.error_log if entry.line > 0), 1)
    return f"{path or _NAMELESS}:{line}: " + ("; ".join(list(messages)[-3:]) or str(error))


def _forbidden(right: str, what: str) -> TransformError:
    if right != "read":
        return TransformError(
            f"a transform may write nothing, and this one asks to write {what}", "forbidden"
        )
    return TransformError(
        f"a transform may read only the folders that etc/narval.toml allows, and {what} is in none of them",
        "forbidden",
    )
