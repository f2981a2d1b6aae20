"""Who drives which execution, and when."""

from collections.abc import Mapping
from typing import Protocol

import attrs

from wfcore.ports.journal import ExecutionRef


@attrs.frozen
class Capabilities:
    """What a dispatcher promises, so that its contract suite asks for no more. Times in seconds."""

    serial_per_execution: bool
    transactional_wake: bool
    interrupts_running: bool
    timer_lag: float
    death_detected_within: float


class Handler(Protocol):
    """What a dispatcher calls: the driver."""

    async def handle(self, execution: ExecutionRef) -> None:
        """Drive one execution until it waits or ends. The dispatcher holds the claim when it calls."""
        ...

    def signal(self, execution: ExecutionRef) -> bool:
        """Have the one that drives this execution look at the journal again; False when it is not driven here."""
        ...

    def lengths(self) -> Mapping[ExecutionRef, int]:
        """How far each execution that is driven here has been read."""
        ...


class Dispatcher(Protocol):
    """Implementers: an execution with `wake_at` due and nobody on it is handled, also after any process died.

    Wake-ups are hints: duplicates, reordering and spurious ones are legal, a lost one is repaired from the store.
    One execution is never handled twice at once by live workers.
    """

    capabilities: Capabilities

    @property
    def worker(self) -> int | None:
        """The number under which executions may be claimed for this process as they are created; None when it
        does not work, or has its hands full: they are then taken up by whoever is free."""
        ...

    def wake(self, execution: ExecutionRef) -> None:
        """Something happened to this execution: look at it now, or let the one that drives it look again."""
        ...

    def adopt(self, execution: ExecutionRef) -> None:
        """Handle this execution, which was claimed for `worker` in the transaction that wrote it."""
        ...

    async def start(self, handler: Handler) -> None:
        """Begin to work. Returns when this process can claim."""
        ...

    async def stop(self, grace: float) -> None:
        """Take nothing new, let what runs go on for `grace` seconds, then break it off. It is taken up elsewhere."""
        ...
