"""Triage: what to do about a mail, by rules that the user edits as XPath."""

from __future__ import annotations

from lxml import etree

from narval import ActionError, Element, Input, NarvalError, Needs, Output, action, fits


@action(
    inputs=[
        Input("mail", "email[not(@kind)]", use=True),
        Input(
            "rules",
            "rule[@when and @verdict]",
            list=True,
            optional=True,
            holds={"when": "pattern", "order": "number", "template": "name of ack-template"},
            reads="name order when verdict why template",
        ),
        Input("templates", "ack-template[@name]", list=True, optional=True, reads="name"),
    ],
    outputs=[Output("verdict", "triage[@verdict]", own=["@mail"])],
    needs=Needs(),
    runs="inline",
    pure=True,
    description="What the first rule that fits says of a mail.",
    keeps={f"verdict/{name}": f"mail/{name}" for name in ("@from", "@subject", "@message-id")},
)
def judge(mail: Element, rules: list[Element], templates: list[Element]) -> etree._Element:
    """Return `<triage verdict="…" why="…" rule="…" mail="EID" …/>`; if no rule matches, the verdict is leave.

    Rules are tried by their `order`, those with the same order by age. `when` is a pattern, tested only on
    the mail, as `email[@list]` would be in a recipe. The `template` of a rule names the `ack-template` of its
    answer, and goes into the verdict. Raises ActionError for an invalid rule.
    """
    made, attributes = etree.Element("triage", mail=str(mail.eid)), mail.attributes
    for name in ("from", "subject", "message-id"):
        value = attributes.get(name)
        if value:
            made.set(name, value)
    made.set("verdict", "leave")
    made.set("why", "no rule fits it")
    for rule in sorted(rules, key=_order):
        if _fits(mail, rule):
            said = rule.attributes
            made.set("verdict", said["verdict"])
            made.set("why", said.get("why", said["when"]))
            made.set("rule", said.get("name", ""))
            if "template" in said:
                made.set("template", _template(rule, templates))
            break
    return made


@action(
    inputs=[Input("verdict", "triage[@verdict]", outdates=True), Input("reason", "reason", reads="name")],
    outputs=[Output("verdict", "triage[@verdict='leave']")],
    runs="inline",
    pure=True,
    description="The verdict on a mail that is left alone after all, and why.",
    keeps={
        "verdict/@why": "reason",
        **{f"verdict/{name}": f"verdict/{name}" for name in ("@mail", "@from", "@subject", "@message-id")},
    },
)
def leave(verdict: Element, reason: Element) -> etree._Element:
    """Return the verdict again, as `leave`, with the reason in `<reason>…</reason>`."""
    made = etree.Element("triage", dict(verdict.attributes))
    made.set("verdict", "leave")
    made.set("why", " ".join(reason.text.split()))
    return made


def _order(rule: Element) -> tuple[float, int]:
    text = rule.attributes.get("order", "0")
    try:
        return float(text), rule.eid
    except ValueError:
        raise ActionError(
            f"expected the order of rule {_called(rule)} to be a number, got {text!r}", "bad-rule"
        ) from None


def _template(rule: Element, templates: list[Element]) -> str:
    """The name of the template that a rule chooses. Raises ActionError if there is none of that name."""
    name, names = rule.attributes["template"], [template.attributes["name"] for template in templates]
    if name in names:
        return name
    there = f"there are {', '.join(sorted(names))}" if names else "there is none with a name"
    said = f"rule {_called(rule)} names the ack-template {name!r}, and {there}; add one of that name"
    raise ActionError(said, "bad-rule")


def _fits(mail: Element, rule: Element) -> bool:
    """True if the mail matches the rule's pattern, as it would in a recipe (N9, N10)."""
    try:
        return fits(mail, rule.attributes["when"])
    except NarvalError as error:
        said = f"the pattern of rule {_called(rule)} is no XPath that can be tried: {error}"
        raise ActionError(said, "bad-rule") from None


def _called(rule: Element) -> str:
    return rule.attributes.get("name") or str(rule.eid)
