"""The page of `narval.api`: what modules of actions share with narval, by subject."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from narval import api
from tests.house.pages.python_names import methods, told

PATH = "reference/api.md"

HEAD = """\
# For modules

Made from signatures and docstrings by `python -m tests.house.pages`; a test compares. Beside the names of
`narval` ([Python](python.md)), these are what [modules of actions](module.md) may import:

```python
from narval.api import one_line, xml_safe
```

The modules that ship import these names and those of `narval`, and no others of narval. A name is imported
when it is first asked for, so a module pays only for what it uses.

**What is promised.** A name of this page keeps working within a major version: with the arguments, the result
and the errors that stand here. New names and new optional arguments may come with any version. A name that is
to go is marked here for a whole major version before. What is not on this page or on [Python](python.md) may
change with any version.
"""


def lines() -> Iterator[str]:
    """The lines of the page."""
    yield HEAD
    for subject, names in api.SUBJECTS.items():
        yield f"## {subject}\n"
        for name in names:
            value = getattr(api, name)
            yield from told(f"narval.api.{name}", value)
            if inspect.isclass(value) and not issubclass(value, BaseException):
                yield from methods(name, value)
