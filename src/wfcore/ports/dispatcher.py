"""The dispatcher decides which worker drives which execution, and when."""

from collections.abc import Mapping
from typing import Protocol

import attrs

from wfcore.ports.journal import Claimed, ExecutionRef


@attrs.frozen
class Delays:
    """How late a dispatcher can be, in seconds. Its contract suite waits that long."""

    timer: float
    """From the due time of an execution until it is handled."""
    dead_worker: float
    """From the death of a worker until another one handles its executions."""


class Handler(Protocol):
    """What a dispatcher calls: the driver."""

    async def handle(self, execution: ExecutionRef, claimed: Claimed | None = None) -> None:
        """Drive one execution until it waits or ends. The dispatcher holds the claim when it calls.

        `claimed` is what the claim has read, if nothing was appended since as far as the dispatcher knows.
        """
        ...

    def signal(self, execution: ExecutionRef) -> bool:
        """Make the driver of this execution read the journal again; False when this process does not drive it."""
        ...

    def has_read(self, execution: ExecutionRef, length: int) -> bool:
        """Whether this process drives the execution, and has read that many journal entries."""
        ...

    def lengths(self) -> Mapping[ExecutionRef, int]:
        """How many journal entries the driver has read, for each execution that this process drives."""
        ...


class Dispatcher(Protocol):
    """Implementers: an execution whose `wake_at` is due and that no worker holds is handled, even after a process died.

    Wake-ups are hints. They can be duplicate, reordered or spurious; a lost one is recovered from the store.
    Two live workers never handle the same execution at the same time.
    """

    @property
    def delays(self) -> Delays: ...

    @property
    def worker(self) -> int | None:
        """The worker number under which this process can claim executions when it creates them.

        None when this process does not work or has no free capacity: any free worker then claims them.
        """
        ...

    def wake(self, execution: ExecutionRef, length: int | None = None) -> None:
        """This execution has changed: handle it now, or signal its driver to read the journal again.

        `length` is that of its journal after the change. An engine can drop a second wake-up for the same length.
        """
        ...

    def adopt(self, execution: ExecutionRef) -> None:
        """Handle this execution, which the transaction that created it claimed for `worker`."""
        ...

    async def start(self, handler: Handler) -> None:
        """Start working. Returns when this process can claim executions."""
        ...

    async def stop(self, grace: float) -> None:
        """Claim nothing new, wait `grace` seconds for running executions, then cancel and release them."""
        ...
