"""Code of modules that kinds use by name: made from declarations in order, with their faults recorded."""

from __future__ import annotations

import hashlib
import inspect
from abc import ABC, abstractmethod
from types import ModuleType
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from narval.core.definitions.library import ModuleDefinition
from narval.core.definitions.reading.python import Declaration, declarations, definition_of, is_needed
from narval.core.definitions.reading.vocabulary import identifier
from narval.core.definitions.reading.xml import Place
from narval.core.errors import Fault
from narval.core.source.text import Source

Code = TypeVar("Code", bound=ModuleDefinition)


class CodeMaker(ABC, Generic[Code, Declaration]):
    """A maker of the code that one module file declares for a kind, with the common checks."""

    def __init__(self, source: Source, group: str) -> None:
        self._source, self._group = source, group
        self._place: Place = (1, 1)
        self._word = ""
        self._made: list[Code] = []
        self._faults: list[Fault] = []

    def read(
        self, module: ModuleType, attribute: str, declared: type[Declaration]
    ) -> tuple[list[Code], list[Fault]]:
        """The code that the file declares by an attribute, in order, and all its faults."""
        for variable, value, declaration in declarations(module, attribute, declared):
            self._place, _ = definition_of(self._source, variable, value)
            self._make(variable, value, declaration)
        return sorted(self._made, key=lambda code: code.line), sorted(set(self._faults))

    @abstractmethod
    def _make(self, variable: str, value: Any, declaration: Declaration) -> None:
        """Make the code of one declaration, or record its faults."""

    def _keep(self, code: Code, xml: bytes) -> None:
        """Add the finished code; memory shows it as this element."""
        digest = hashlib.sha256(self._source.digest.encode() + xml).hexdigest()
        self._made.append(replace(code, xml=xml, digest=digest))

    def _fault(self, message: str) -> None:
        self._faults.append(self._source.fault(f"{self._word}: {message}", *self._place))

    def _is_name(self, name: Any) -> bool:
        try:
            identifier(name)
        except (TypeError, ValueError):
            self._fault(f"expected a name without blanks, found {name!r:.80}")
            return False
        return True

    def _check_made_alone(self, value: type) -> None:
        try:
            parameters = inspect.signature(value).parameters.values()
        except (TypeError, ValueError):
            return
        needed = [parameter.name for parameter in parameters if is_needed(parameter)]
        if needed:
            self._fault(f"expected a class that is made without arguments, but it needs {', '.join(needed)}")
