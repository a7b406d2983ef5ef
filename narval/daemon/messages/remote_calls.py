"""Calls between agents: a run of one answers a call of another (G33 to G36).

A call is sent by the turn that asks for it, its result by the turn that ends the run, and a mailbox takes
each of them once. So nothing must be repeated after a kill: the caller has the active call, and the row of
the run has its caller.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.agent.runs import failure_of
from narval.agent.timers import GiveUpCall
from narval.agent.trace_ids import trace_of
from narval.agent.transaction import CallGivenUp
from narval.agent.turn import Turn
from narval.core.agent_name import AT, is_meant, peer_of
from narval.core.definitions.remote_calls import limit_of_remote
from narval.core.elements.own_elements import make_error
from narval.core.engines.commands import Call, Finish
from narval.core.engines.events import Caller, Failure, Returned
from narval.daemon.messages.envelope import UNDELIVERED, Outgoing, seal
from narval.daemon.messages.outbox import Outbox
from narval.store.batch import AgentRow
from narval.store.codec import reader

log = logging.getLogger("narval.messages")

CALL, CANCEL, RETURNED = "call", "cancel", "returned"
"""Kinds of messages: a call, the request to give it up, and its result."""

MOST_BYTES = 16 * 1024 * 1024
"""The most bytes of elements that go with a call, or return with its result."""

MOST_DEEP = 32
"""The most agents that may wait for one another in a chain."""

_ANSWERED = "answered "
"""The prefix of the sender of request keys that record the latest answers to an agent's calls."""

PATIENCE = 30.0
"""Seconds after which an abandoned call ends without an answer."""

Offers = Mapping[str, tuple[str, ...]]
"""The agents that may call each definition, by its full name; "*" is any agent."""


class RunAsked(msgspec.Struct, frozen=True, omit_defaults=True):
    """The request of a call: definition, first context, attributes of a process, and deadline."""

    kind: str
    name: str
    until: float
    depth: int
    elements: tuple[bytes, ...] = ()
    environment: dict[str, str] = {}
    trace: str = ""
    """The trace of the calling run; "" if that agent has no traces."""

    @property
    def digest(self) -> str:
        """The digest of the called definition and its inputs, the same for each try."""
        asked = msgspec.msgpack.encode((self.kind, self.name, self.elements, self.environment))
        return hashlib.blake2b(asked, digest_size=16).hexdigest()


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to a call of `run`, as numbered by the caller: elements, and why it failed, if it has."""

    run: int
    elements: tuple[bytes, ...] = ()
    problem: Failure | None = None


read_asked = reader("a call of another agent", RunAsked)
"""Parse the request of a call. Raises UnreadableError."""

read_reply = reader("the result of a call at another agent", Reply)
"""Parse the answer to a call. Raises UnreadableError."""


def call_key(id: str, caller: str) -> str:
    """The id under which a run answers a call: for a caller in another home, one that no caller here has."""
    return f"{id}{AT}{peer_of(caller)}" if AT in caller else id


_TRY = re.compile(rf"~\d+(?={AT}|$)")
"""The number of the try in the id of a message, or in a key."""


def receipt_key(id: str, digest: str) -> str:
    """The key of the receipt of a call: the same for each of its tries."""
    return f"{_TRY.sub('', id)} {digest}"


class RemoteCalls:
    """The calls that one activation makes to other agents, and those of others that it answers.

    `offers` returns the agents that may call each definition here (G34).
    """

    def __init__(self, agent: AgentState, outbox: Outbox, offers: Callable[[], Offers]) -> None:
        self._agent, self._outbox, self._offers = agent, outbox, offers
        self._office = outbox.office
        self.dropped = 0
        """The number of replies for which no run waited any longer."""

    @property
    def _identity(self) -> AgentRow:
        return self._outbox.sender

    def correspond(self, turn: Turn) -> None:
        """Send what the runs of a turn ask of other agents, give up, or answer."""
        for run, what in turn.transaction.remote:
            if self._office.stand_in(turn, run, what):
                continue
            if isinstance(what, Call):
                self._call(turn, run, what)
            elif isinstance(what, CallGivenUp):
                self._give_up(turn, run, what.call)
            else:
                self._answer(turn, run, what)

    # --- the caller's side ------------------------------------------------------------------------------

    def waiting(self, id: str, run: int = 0) -> tuple[Run, Call] | None:
        """The call under way whose message has that id, and its run; None if no run waits for it."""
        agent, _, of = id.partition(".")
        name, _, attempt = of.partition("~")
        if agent != self._identity.id:
            return None
        runs = self._agent.runs.active
        asked = runs.get(run)
        if asked is None or name not in asked.calls:
            asked = next((caller for caller in runs.values() if name in caller.calls), None)
        if asked is None or str(asked.calls[name].attempt) != (attempt or "1"):
            return None
        return asked, asked.calls[name]

    def come_back(
        self,
        turn: Turn,
        id: str,
        run: int,
        sender: str,
        add: Callable[[Run, Call], tuple[tuple[int, ...], Failure | None]],
    ) -> None:
        """Deliver the result of a call to its run; `add` adds it to memory. It is dropped if no run waits for
        it, or if it comes from a home that was not asked.
        """
        run_and_call = self.waiting(id, run)
        if run_and_call is None or peer_of(run_and_call[1].agent) != peer_of(sender):
            self.dropped += 1
            log.info("the result of call %s was dropped: no run waits for it any more", id)
            return
        asked, call = run_and_call
        eids, problem = add(asked, call)
        turn.transaction.label(asked.eid, turn.transaction.comes_with)  # the failure may quote it
        given_up = call.call in asked.abandoned
        back = Returned(0, 0.0, call.call, eids=eids, problem=problem, abandoned=given_up)
        turn.tell(asked.eid, back)

    def id_of(self, call: Call) -> str:
        """The id of the message of a call: that of the call, with the number of the try after the first. So
        the result of an abandoned try is not mistaken for that of the next.
        """
        again = f"~{call.attempt}" if call.attempt > 1 else ""
        return f"{self._identity.id}.{call.call}{again}"

    def _call(self, turn: Turn, run: Run, call: Call) -> None:
        receiver = self._office.addresses.find_for(self._identity.name, call.agent)
        eids, elements = self._there((*call.elements, *(eid for _, values in call.inputs for eid in values)))
        depth = self._depth(run) + 1
        problem = None
        if receiver is None:
            why = f"there is no agent {call.agent} here: narval agents lists them"
            if AT in call.agent:
                why = self._office.addresses.why_not(self._identity.name, call.agent)
            problem = Failure("undelivered", why)
        elif sum(map(len, elements)) > MOST_BYTES:
            problem = _too_large(f"what goes along with the call of {call.name} of {call.agent}")
        elif depth > MOST_DEEP:
            why = f"{MOST_DEEP} agents wait for one another, down to {self._identity.name}"
            message = f"{why}, and it calls {call.name} of {call.agent}; see whether that has an end"
            problem = Failure("too-deep", message, final=True)
        if receiver is None or problem is not None:
            self._agent.queue.append((0, run.eid, Returned(0, 0.0, call.call, problem=problem)))
            return
        environment = (call.payload or {}).get("environment")
        until = turn.at + limit_of_remote(call.timeout)
        values = dict(environment) if isinstance(environment, dict) else {}
        traced = self._agent.samples is not None
        trace = trace_of(self._agent, self._identity.id, run) if traced else ""
        asked = RunAsked(call.kind, call.name, until, depth, elements, values, trace)
        envelope = self._outbox.envelope(run.eid, call.step, eids, run.by, run.actor)
        self._outbox.send(turn, receiver, Outgoing(CALL, self.id_of(call), envelope, seal(asked)))

    def _give_up(self, turn: Turn, run: Run, call: Call) -> None:
        receiver = self._office.addresses.find(call.agent)
        if receiver is not None:
            envelope = self._outbox.envelope(run.eid, call.step)
            self._outbox.send(turn, receiver, Outgoing(CANCEL, self.id_of(call), envelope))
        if run.active:
            turn.transaction.later(turn.at + (PATIENCE if receiver else 0.0), GiveUpCall(run.eid, call.call))

    def _depth(self, run: Run) -> int:
        """The number of agents that wait in a chain for the result of a run."""
        caller = _caller_of(self._agent.runs.get(self._agent.runs.top(run), run))
        return caller.depth if caller is not None else 0

    # --- the called side --------------------------------------------------------------------------------

    def refusal(self, kind: str, name: str, sender: str) -> Failure | None:
        """The reason why another agent may not call a definition here (G34); None if it may."""
        allowed = self._offers().get(name, ())
        if any(is_meant(rule, sender) for rule in allowed):
            return None
        here = self._identity.name
        how = f'offers = {{"{name}" = ["{sender}"]}} in its agent.toml, or in [agent] of etc/narval.toml'
        return Failure("not-granted", f"{here} does not offer {kind} {name} to {sender}: {how}", final=True)

    def answer_again(self, turn: Turn, to: str, id: str, asked_by: int, asked: RunAsked) -> bool:
        """Answer with the result of an earlier try of a call, whose answer did not reach the calling run;
        False if no try has succeeded here. The run or its elements may be forgotten by now: even then nothing
        is done twice. The answer is judged by the rules like the first.
        """
        key = call_key(id, to)
        eids = self._agent.request_keys.eids(_ANSWERED + to, receipt_key(key, asked.digest))
        if not eids:
            return False
        eid, *gave = eids
        run = self._agent.runs.get(eid)
        log.info("call %s of %s is answered with what run %d gave to an earlier try", id, to, eid)
        if run is None or not all(one in self._agent.memory for one in gave):
            message = f"run {eid} of {self._identity.name} has done this, and what it gave is forgotten"
            problem = Failure("forgotten", message, final=True)
            self.reply(turn, to, id, Reply(asked_by, problem=problem), eid)
            return True
        caller = Caller(0, "", key, agent=to, asked_by=asked_by, depth=asked.depth, digest=asked.digest)
        again = replace(run, caller=caller, state=None)
        turn.transaction.remote.append((again, Finish(run.status, "done", tuple(gave))))
        return True

    def reply(
        self, turn: Turn, to: str, id: str, reply: Reply, run: int = 0, eids: tuple[int, ...] = ()
    ) -> None:
        """Send the result of a call to its caller, if that still exists; `run` has answered it, with the
        elements `eids`. `id` is that of its message, or the key of the run that answers it.
        """
        id = id.partition(AT)[0]
        caller = self._office.addresses.find_same(to, id.partition(".")[0])
        if caller is None:
            log.info("the result of call %s was dropped: %s no longer exists", id, to)
            return
        envelope = self._outbox.envelope(run, inputs=eids)
        self._outbox.send(turn, caller, Outgoing(RETURNED, id, envelope, seal(reply)))

    def notify_of_gone(self, turn: Turn, name: str, asked: Iterable[tuple[str, str]]) -> None:
        """Notify the callers of an agent that was removed, given their names and the ids of their calls."""
        notice = make_error("undelivered", f"{name} was removed", receiver=name, reason="removed")
        for waiting, key in asked:
            id = key.partition(AT)[0]
            caller = self._office.addresses.find_same(waiting, id.partition(".")[0])
            if caller is not None:
                message = Outgoing(UNDELIVERED, id, self._outbox.envelope(), notice)
                self._outbox.send(turn, caller, message)

    def _answer(self, turn: Turn, run: Run, end: Finish | Failure) -> None:
        caller = _caller_of(run)
        assert caller is not None
        if isinstance(end, Failure):  # its result may not leave the home
            self.reply(turn, caller.agent, caller.call, Reply(caller.asked_by, problem=end), run.eid)
            return
        problem = None if end.phase == "done" else failure_of(turn.transaction, run)
        eids, elements = self._there(end.eids)
        if sum(map(len, elements)) > MOST_BYTES:
            eids, elements, problem = (), (), _too_large(f"what {run.name} of {self._identity.name} gave")
        if problem is None:
            key, facts = receipt_key(caller.call, caller.digest), turn.transaction.batch.meta
            self._agent.request_keys.record(facts, _ANSWERED + caller.agent, key, run.eid, *eids)
        reply = Reply(caller.asked_by, elements, problem)
        self.reply(turn, caller.agent, caller.call, reply, run.eid, eids)

    def _there(self, eids: Iterable[int]) -> tuple[tuple[int, ...], tuple[bytes, ...]]:
        """The elements of these that still exist, each once, and their bytes."""
        elements = [self._agent.memory.element(eid) for eid in dict.fromkeys(eids)]
        there = [element for element in elements if element is not None]
        return tuple([element.eid for element in there]), tuple([element.xml for element in there])


def _caller_of(run: Run) -> Caller | None:
    """The caller of a run, from its state: the row from which it may have been restored has less."""
    return run.state.caller if run.state is not None and run.state.caller is not None else run.caller


def _too_large(what: str) -> Failure:
    most = MOST_BYTES // 1024 // 1024
    message = f"{what} is larger than {most} MB; leave it in a file, and say where that is"
    return Failure("too-large", message, final=True)
