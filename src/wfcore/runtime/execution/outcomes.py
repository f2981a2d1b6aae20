"""The entries with the outcomes of effects: the address of the effect, and when; and letting a machine have them."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from msgspec import structs

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import Address, CallModel, CallTool, Effect, OpenChild
from wfcore.domain.run.entries import Entry, Failed, Opened, Outcome, Progressed, Said, Sent, Succeeded
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.machine.requests import BROKEN_OFF
from wfcore.domain.run.state import IllegalEntry

Stream = Callable[[Said | Progressed], Awaitable[None]]
"""Records what an effect says while it runs."""
Performed = Succeeded | Opened | Failed
"""The entry with the outcome of an effect."""

LONGEST_MESSAGE = 500
"""Characters that are kept of the text of an exception or a progress report; the rest could be personal data."""


def address_of(outcome: Outcome) -> Address:
    """The address of the effect that the entry is about."""
    return (*outcome.within, outcome.node, outcome.visit, outcome.step)


E = TypeVar("E", bound=Entry)


def stamped(entry: E, at: int) -> E:
    """The entry at this time, in epoch milliseconds."""
    return entry if entry.at == at else structs.replace(entry, at=at)


def succeeded(
    effect: Effect,
    output: JSON,
    at: int,
    usage: dict[str, JSON] | None = None,
    guardrail: dict[str, JSON] | None = None,
) -> Succeeded:
    if len(effect.address) == 3:  # in the root, as most
        node, visit, step = effect.address
        return Succeeded(at, node, visit, step, effect.attempt, output, usage, (), guardrail)
    within, (node, visit, step) = effect.address[:-3], effect.address[-3:]
    return Succeeded(at, node, visit, step, effect.attempt, output, usage, within, guardrail)


def failed(
    effect: Effect,
    at: int,
    message: object,
    reason: str = "failed",
    retryable: bool = True,
    info: dict[str, JSON] | None = None,
    usage: dict[str, JSON] | None = None,
) -> Failed:
    node, visit, step = effect.address[-3:]
    text, within = _kept(message), effect.address[:-3]
    return Failed(at, node, visit, step, effect.attempt, text, reason, retryable, within, info, usage)


def _kept(message: object) -> str:
    """What is kept of a text of a tool, which may be anything: no store takes half of a surrogate pair."""
    return str(message)[:LONGEST_MESSAGE].encode(errors="backslashreplace").decode()


def opened(effect: OpenChild, at: int, variation_id: str) -> Opened:
    """The requested child, with what is pinned for it."""
    node, visit, step = effect.address[-3:]
    opened_with = effect.kind, effect.resource_id, variation_id, effect.input, effect.message
    return Opened(at, node, visit, step, effect.attempt, *opened_with, effect.address[:-3])


def said(effect: Effect, at: int, text: str) -> Said:
    node, visit, step = effect.address[-3:]
    return Said(at, node, visit, step, effect.attempt, text, effect.address[:-3])


def progressed(effect: CallTool, at: int, progress: float | None, total: float | None, message: str) -> Progressed:
    node, visit, step = effect.address[-3:]
    return Progressed(at, node, visit, step, effect.attempt, progress, total, _kept(message), effect.address[:-3])


def sent(effect: CallTool, at: int) -> Sent:
    node, visit, step = effect.address[-3:]
    return Sent(at, node, visit, step, effect.attempt, effect.address[:-3])


def unknown(effect: CallTool, at: int) -> Failed:
    """A worker announced this call and ended: its outcome is unknown."""
    message = f"the outcome of `{effect.tool}` is unknown: the worker ended while it ran"
    return failed(effect, at, message, "unknown_outcome", retryable=False)


def broken_off(effect: CallModel, at: int) -> Failed:
    """Clients saw the model begin to answer, and the rest is lost: the next call produces another message."""
    return failed(effect, at, "the worker ended while the model answered: it is called again", BROKEN_OFF)


def applied(machine: Machine, entries: Sequence[Entry]) -> list[Entry]:
    """Apply entries. Returns those that could happen, without those that are too late: the node was given up, or the
    run has ended.

    The time of an entry is not earlier than that of the entry before, which another process can have written.
    """
    found = []
    for one in entries:
        at = machine.state.at
        entry = one if one.at >= at else stamped(one, at)
        try:
            machine.apply(entry)
        except IllegalEntry:
            continue
        found.append(entry)
    return found
