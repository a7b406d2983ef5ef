"""The names that `narval` and `narval.api` offer: what type checkers see is what there is."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pkgutil import resolve_name
from types import ModuleType

import pytest

import narval
from narval import api
from tests.house.code import nodes
from tests.house.pages.python_names import signature_of
from tests.places import ROOT

OFFERING = {narval: ROOT / "narval" / "__init__.py", api: ROOT / "narval" / "api.py"}


@pytest.mark.parametrize("package", OFFERING, ids=lambda package: package.__name__)
def test_type_checkers_see_the_names_that_there_are(package: ModuleType) -> None:
    seen = {
        alias.asname: resolve_name(f"{node.module}.{alias.name}")
        for node in nodes(OFFERING[package], ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    assert set(dir(package)) <= set(seen)
    assert {name: getattr(package, name) for name in seen} == seen


@pytest.mark.parametrize("name", dir(api))
def test_a_name_for_modules_is_explained(name: str) -> None:
    assert inspect.getdoc(getattr(api, name))


def test_a_page_tells_a_function_by_its_own_signature_unless_that_has_no_words() -> None:
    assert signature_of(narval.service) == "(table: str, name: str) -> Service"
    assert "**" not in signature_of(narval.action)


def test_the_names_cost_nothing_until_they_are_asked_for() -> None:
    lists = "import sys, narval.api; print([name for name in sys.modules if name.startswith('narval')])"
    printed = subprocess.run([sys.executable, "-c", lists], capture_output=True, text=True, check=True)
    assert printed.stdout == "['narval', 'narval.api']\n"


def test_opening_a_home_imports_no_kind_that_nothing_asks_for() -> None:
    kinds = "import sys, narval; narval.open(); print([name for name in sys.modules if '.kinds.' in name])"
    printed = subprocess.run([sys.executable, "-c", kinds], capture_output=True, text=True, check=True)
    assert printed.stdout == "[]\n"
