"""Rounds of agents: where the visit of an agent with a context stands. `agent_loop` has the handlers.

The context is composed; then the model is called, and the tools that its answer names, all at once; their results go to
the model with the next call. An answer that names no tool ends the visit, unless the user has sent a message
meanwhile. A visit is given up with its node: after a failure, with its cycle, with its run.
"""

from enum import StrEnum
from typing import Final

from wfcore.domain.agents.context_messages import GIVEN_UP
from wfcore.domain.kernel.json_readers import as_text
from wfcore.domain.run.machine.states.output import key_of, label_of, record
from wfcore.domain.run.machine.states.state import AgentLoop, Frame, RoundState, RunState
from wfcore.domain.run.state import Table, move


class RoundEvent(StrEnum):
    """What can happen in the visit of an agent. `collect`: all results are there, `listen`: the user's message is."""

    compose = "compose"
    ask = "ask"
    call = "call"
    collect = "collect"
    listen = "listen"
    answer = "answer"
    give_up = "give_up"


ROUNDS: Final[Table[RoundState, RoundEvent]] = {
    RoundState.composing: {RoundEvent.compose: RoundState.ready, RoundEvent.give_up: RoundState.given_up},
    RoundState.ready: {RoundEvent.ask: RoundState.model, RoundEvent.give_up: RoundState.given_up},
    RoundState.model: {
        RoundEvent.call: RoundState.tools,
        RoundEvent.listen: RoundState.ready,
        RoundEvent.answer: RoundState.answered,
        RoundEvent.give_up: RoundState.given_up,
    },
    RoundState.tools: {RoundEvent.collect: RoundState.ready, RoundEvent.give_up: RoundState.given_up},
    RoundState.answered: {},
    RoundState.given_up: {},
}

REFUSED = {
    "denied": "the call was denied by a person",
    "cancelled": "the connection that the call needs was refused by a person",
    "given_up": GIVEN_UP,
}
"""The results of calls that were not made, by why."""


def advance(loop: AgentLoop, event: RoundEvent) -> None:
    """Take one row of the table."""
    loop.state = move(ROUNDS, loop.state, event)


def give_up_loop(run: RunState, frame: Frame, index: int, loop: AgentLoop) -> None:
    """End a visit in the middle of a round. The calls without a result get one: the recorded conversation is whole."""
    advance(loop, RoundEvent.give_up)
    node = frame.plan.nodes[index]
    for step, call in loop.open.items():
        name = label_of(frame, key_of(frame, node, step))
        record(run, frame, node, "tool", name, REFUSED["given_up"], call_id=as_text(call["id"]))
    loop.open = {}
