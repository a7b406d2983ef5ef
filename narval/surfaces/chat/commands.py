"""Commands of a chat: operations, in short forms for a telephone (C5)."""

from __future__ import annotations

from narval.surfaces.chat.line import Dealt, Line


async def handle(line: Line) -> Dealt | None:
    """Do what a command says; None of a line that is none."""
    match line.text.casefold().split():
        case ["help"]:
            return Dealt.saying("You can write: status, help.")
        case ["status"]:
            runs = (await line.ask("status"))["runs"]
            return Dealt.saying(f"{runs['active']} runs are under way, {runs['failed']} failed.")
    return None
