"""Agreement: if a tool requires it, the user of a client is asked, and the answer is valid for one call."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections import OrderedDict
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from narval.core.errors import RequestError
from narval.surfaces.mcp.resources import Context

REMEMBERED = 1_000
"""The most questions that may still be answered, and calls that may still be cancelled."""

APPROVE = "approve"
"""The question to a user, and the field of the answer."""

_AGREEING: dict[str, Any] = {
    "type": "object",
    "properties": {APPROVE: {"type": "boolean", "title": "Start it", "default": False}},
    "required": [APPROVE],
}


class Agreements:
    """The questions to users of clients. `about` is a call: `client`, `tool` and `arguments`."""

    def __init__(self) -> None:
        self._questions: OrderedDict[str, str] = OrderedDict()
        """The calls that a client's user is asked about, by the state that the client must return."""

    async def ask(self, ctx: Context, about: dict[str, Any], text: str) -> types.InputRequiredResult | None:
        """Have the user of a client asked; None once they agreed, else the answer to the client.

        Raises RequestError if the user cannot be asked or does not agree, MCPError.
        """
        able = ctx.session.client_capabilities
        if able is None or able.elicitation is None:
            raise _lacking(about["tool"], is_modern=is_modern(ctx))
        if is_modern(ctx):
            state = secrets.token_urlsafe(24)
            self._questions[state] = _digest(about)
            if len(self._questions) > REMEMBERED:
                self._questions.popitem(last=False)
            asked = types.ElicitRequestFormParams(message=text, requested_schema=_AGREEING)
            return types.InputRequiredResult(
                input_requests={APPROVE: types.ElicitRequest(params=asked)}, request_state=state
            )
        try:
            answer = await ctx.session.elicit_form(text, _AGREEING, ctx.request_id)
        except NoBackChannelError:
            raise RequestError(f"{about['tool']}: this connection has no way to ask its user") from None
        if not _agrees(answer):
            raise RequestError(f"{about['tool']} was not started: its user did not agree")
        return None

    def was_agreed(self, about: dict[str, Any], params: types.CallToolRequestParams) -> bool:
        """True if a client brings its user's agreement to exactly this call, for the first time.

        False, so that the user is asked, for an answer without a question or without the user's decision.
        Raises MCPError if the question was for another call, and RequestError if the user did not agree.
        """
        if params.request_state is None:
            return False
        asked = self._questions.pop(params.request_state, None)
        if asked is None or asked != _digest(about):
            why = f"{about['tool']}: the answer is to another call, or to none: call it again"
            raise MCPError(code=types.INVALID_PARAMS, message=why)
        answer = (params.input_responses or {}).get(APPROVE)
        if answer is None:
            return False
        if not _agrees(answer):
            raise RequestError(f"{about['tool']} was not started: its user did not agree")
        return True


def is_modern(ctx: Context) -> bool:
    """True for a request of the revisions without a handshake."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def _lacking(tool: str, *, is_modern: bool) -> Exception:
    """The error for a call whose client cannot ask its user; without a handshake the protocol defines it."""
    why = f"{tool} needs the agreement of a user, whom this client cannot ask (elicitation)"
    if not is_modern:
        return RequestError(why)
    needed = types.ClientCapabilities(elicitation=types.ElicitationCapability())
    data = types.MissingRequiredClientCapabilityErrorData(required_capabilities=needed)
    dumped = data.model_dump(by_alias=True, exclude_none=True)
    return MCPError(code=types.MISSING_REQUIRED_CLIENT_CAPABILITY, message=why, data=dumped)


def _agrees(answer: Any) -> bool:
    return (
        isinstance(answer, types.ElicitResult)
        and answer.action == "accept"
        and (answer.content or {}).get(APPROVE) is True
    )


def _digest(about: dict[str, Any]) -> str:
    """The digest of a call: the client, the tool and the arguments."""
    named = {key: about[key] for key in ("client", "tool", "arguments")}
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()
