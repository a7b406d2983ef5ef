"""Errands of the house."""

from xml.sax.saxutils import quoteattr

from narval import Element, Input, Output, action


@action(
    inputs=[Input("wish", "email[@subject]", use=True), Input("evening", "evening[@date]")],
    outputs=[Output("receipt", "receipt")],
    pure=True,
)
def note(wish: Element, evening: Element) -> str:
    """A receipt: what will be bought, when, and for whom."""
    what = wish.attributes["subject"].removeprefix("Please buy").strip()
    said = {"what": what, "date": evening.attributes["date"], "for": wish.attributes.get("from", "")}
    return f"<receipt {' '.join(f'{name}={quoteattr(text)}' for name, text in said.items())}/>"
