"""An order: the code that `recipes/orders.xml` calls by name. Docs: docs/reference/process.md."""

from __future__ import annotations

from html import escape

from narval import Token, call, listener, node_type, predicate


@node_type("task", gives=["todo", "todo-undone"])
class Task:
    """Something for a person to do: it waits until `narval complete` reports that it is done."""

    title: str = ""
    group: str = "everybody"

    def execute(self, token: Token) -> str:
        """Put the task into memory, where people and recipes see it."""
        return (
            f"<todo run='{token.process.run}' token='{token.id}' node='{escape(token.node.name)}'"
            f" title='{escape(self.title)}' group='{escape(self.group)}'/>"
        )

    def backtrack(self, token: Token) -> str:
        """Record that the task is no longer needed."""
        return f"<todo-undone run='{token.process.run}' token='{token.id}' title='{escape(self.title)}'/>"


@node_type("charge", runs="worker", gives=["charge", "refund"])
class Charge:
    """Charge the customer's card, up to a limit: the id of the call makes it once, whatever crashes."""

    limit: float = 100.0

    def execute(self, token: Token) -> str | None:
        """Leave on the arc `declined` if the amount is beyond the limit."""
        amount = token.environment.get("amount", 0.0, float)
        if amount > self.limit:
            token.set("declined", f"{amount:g} is more than {self.limit:g}")
            token.complete("declined")
            return None
        token.process.environment.set("paid", True)
        token.process.environment.set("receipt", call().id)
        token.complete()
        return f"<charge run='{token.process.run}' amount='{amount:g}'/>"

    def backtrack(self, token: Token) -> str:
        """Refund the money."""
        token.process.environment.set("paid", False)
        return f"<refund run='{token.process.run}' receipt='{escape(token.environment.get('receipt', ''))}'/>"

    def is_backtrackable(self, token: Token) -> bool:
        """True unless the goods have left the house, which cannot be undone."""
        return bool(token.process.environment.get("shipped", "") != "true")


@predicate("isPaid")
def is_paid(token: Token) -> bool:
    """True if the order is paid."""
    return bool(token.environment.get("paid", False, bool))


@predicate("isDue")
def is_due(token: Token) -> bool:
    """True if the token was postponed before, and its moment has come."""
    return token.guard_action == "DelayUntil"


@listener(
    "orderLog", events=["PROCESS_STARTED", "PROCESS_COMPLETED", "NODE_TOKEN_BACKTRACKED"], everywhere=False
)
def order_log(event: object) -> None:
    """Write the outcome of an order to the daemon's log."""
    print(event)
