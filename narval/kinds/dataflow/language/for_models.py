"""The language of dataflows in brief, for models that write definitions: an example, rules, all operators."""

from __future__ import annotations

from collections.abc import Iterator

from narval.kinds.dataflow.language.operators import OPERATOR_TABLE, Operator, Port

_PAGE = """\
## Dataflows: tables, pages and files, compared

In a file NAME.plan; its plans have the group NAME. A step of `type="dataflow" target="prices.Cheap"` runs
one, with `<arguments><value name="to">element:report</value></arguments>` for its inputs.

```plan
PLAN Cheap {
  INPUT: String shop, String to
  OUTPUT: cheap

  BODY {
    Table(shop : prices) ON_ERROR: failed
    print("the shop could not be read") WAIT: failed
    select("price < 5 AND name <> 'salt'", prices : cheap)
    relsprintf("text", "%name%: %price%", cheap : lines)
    aggregate("text", "lines", lines : message)
    notify(to, message)
  }
}

PLAN Table {
  INPUT: String url
  OUTPUT: prices

  BODY {
    fetch(url : pages)
    extract(pages, "
        record css:table.prices tr
        name td[1]
        price Number td[2]
      " : prices)
  }
}
```

- A call fires when its inputs are there; each datum has one name, is produced once and consumed. Several go
  in parentheses: `union((a, b) : both)`. A stream in place of a text runs the operator for each tuple.
- Rules of `extract`: `record SELECTOR`, then `NAME [Number|Url] SELECTOR`: XPath, `css:` or `json:`.
- `notify` sends to `mailto:ADDRESS`; `element:NAME` adds elements to memory, for recipes.

Operators (inputs : outputs):
"""


def page() -> str:
    """The page about the language for models, without the operators that call Python functions."""
    return "\n".join([_PAGE.rstrip(), *_lines()])


def _lines() -> Iterator[str]:
    for one in OPERATOR_TABLE.values():
        if not any(port.type == "Function" and not port.optional for port in (*one.inputs, *one.outputs)):
            yield f"- {_form(one)}: {one.does}"


def _form(one: Operator) -> str:
    inputs, outputs = (
        ", ".join(_port(port) for port in ports if port.type != "Function")
        for ports in (one.inputs, one.outputs)
    )
    return f"{one.name}({inputs} : {outputs})".replace("( ", "(").replace(" )", ")")


def _port(port: Port) -> str:
    text = f"{port.name}={'|'.join(port.words)}" if port.words else port.name
    return f"({text})*" if port.many else f"[{text}]" if port.optional else text
