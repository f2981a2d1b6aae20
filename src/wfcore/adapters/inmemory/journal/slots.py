"""The slots of calls with a `concurrencyKey`."""

from collections.abc import Collection

from wfcore.domain.run.effects import CallSlot
from wfcore.ports.journal import ExecutionRef

Attempt = tuple[ExecutionRef, str]


class MemorySlots:
    """The attempts with the same key of an organization, each with its limit, in the order in which they came."""

    def __init__(self) -> None:
        self._queues: dict[tuple[str, str], dict[Attempt, int]] = {}

    def take(self, execution: ExecutionRef, attempt: str, slot: CallSlot) -> int:
        """How many other attempts must end before this one can begin; it takes its place if it has none."""
        key, most = slot
        queue = self._queues.setdefault((execution.org, key), {})
        queue.setdefault((execution, attempt), most)
        return max(0, list(queue).index((execution, attempt)) - most + 1)

    def free(self, execution: ExecutionRef, kept: Collection[str] = ()) -> list[ExecutionRef]:
        """Remove the attempts of the execution but those that are kept. Executions whose attempts can begin now."""
        admitted: dict[ExecutionRef, None] = {}
        for key, queue in list(self._queues.items()):
            before = list(queue)
            for one in [one for one in before if one[0] == execution and one[1] not in kept]:
                del queue[one]
            if not queue:
                del self._queues[key]
            for place, (one, most) in enumerate(queue.items()):
                if place < most <= before.index(one):
                    admitted[one[0]] = None
        return list(admitted)

    def is_admitted(self, execution: ExecutionRef, attempts: Collection[str]) -> bool:
        """Whether one of these attempts can begin."""
        return any(
            place < most and ref == execution and attempt in attempts
            for queue in self._queues.values()
            for place, ((ref, attempt), most) in enumerate(queue.items())
        )
