"""The embedded dispatcher: it drives executions in this process, and finds due ones in the store.

Any number of processes can work on one store. A claim is a column of the execution. Other workers detect a dead one by
its missing heartbeats; on the same machine they find out at once from the process table. A waiting execution takes no
memory.

The store is authoritative and polled every `HEARTBEAT` seconds. Notifications between processes (`notify`, `receive`)
only shorten the wait for the next poll.

Rounds, heartbeats and silences are measured by the monotonic clock of this process. The wall clock only decides which
due times have come, so a step of the clock, or clocks that differ, cannot make a worker idle or dead.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import attrs

from wfcore.domain.kernel.errors import NotFound
from wfcore.ports.dispatcher import Delays, Handler
from wfcore.ports.faults import Outage, is_failure
from wfcore.ports.journal import Claimed, ExecutionRef, Holder, Journal
from wfcore.ports.system import Clock

log = logging.getLogger("wfcore.dispatcher")

Handle = Callable[[ExecutionRef], Awaitable[None]]

HEARTBEAT = 1.0
"""Seconds between two heartbeats, and between two polls for dead workers, due executions and foreign writes."""

CLAIM_BATCH = 50
"""Executions in one claim: small, so that several workers share executions that fall due together."""

RECLAIM_DELAY = 0.005
"""Seconds to the next round when an execution is due that this round did not claim."""

DEAD_AFTER = 4.0
"""Seconds without a heartbeat after which a worker on another machine counts as dead."""

MAX_SILENCE_STEP = 2 * HEARTBEAT
"""The most seconds of silence that one poll adds. A worker that was suspended or without a database saw no heartbeats,
and must not conclude that the others are dead.
"""

STUCK_AFTER = 60.0
"""Seconds without a heartbeat after which a worker counts as dead even if its process exists."""

ROUND_FAILED = "a round of the dispatcher failed"

RETRY_DELAY = 10.0
"""Seconds before the next attempt at an execution that could not be driven."""

LATEST_OUTCOME = 600.0
"""Seconds after which the outcome of a write that claimed an execution is lost, and not only late."""


class EmbeddedDispatcher:
    """Implements the port `Dispatcher`: drives up to `concurrency` executions at once, each in its own task."""

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        *,
        concurrency: int = 1_000,
        notify: Callable[[ExecutionRef, int | None], object] | None = None,
        engine_lag: Callable[[], float] | None = None,
        on_polled: Callable[[ExecutionRef], object] = lambda _: None,
        outage: Outage | None = None,
    ) -> None:
        """`notify` is called with each execution that other processes must check, and the length of its journal, if
        that is known: there it reaches `receive`.

        `outage` is that of the process; None is one of its own.

        With `engine_lag`, an engine delivers what is due to `claim`: polls only find what it has not delivered for so
        many seconds, and call `on_polled` with it.
        """
        self._journal = journal
        self._clock = clock
        self._outage = outage or Outage(clock)
        self._concurrency = concurrency
        self._notify = notify
        self._engine_lag = engine_lag
        self._on_polled = on_polled
        self._machine = this_machine()
        self._worker: int | None = None
        self._handler: Handler | None = None
        self._active: dict[ExecutionRef, asyncio.Task[None]] = {}
        self._reserved = 0
        self._claiming: dict[ExecutionRef, bool] = {}
        """Executions of claims under way, each with whether a wake-up has named it since."""
        self._resumed: dict[ExecutionRef, int] = {}
        """Claims whose write had no outcome yet when a heartbeat found them, and when that was."""
        self._is_behind = False
        self._wake_again: set[ExecutionRef] = set()
        self._woken = asyncio.Event()
        self._is_hurried = True
        self._rounds: asyncio.Task[None] | None = None
        self._next_beat = 0
        self._polled_at = 0
        self._silences: dict[int, Silence] = {}

    @property
    def delays(self) -> Delays:
        return Delays(timer=HEARTBEAT, dead_worker=DEAD_AFTER + HEARTBEAT)

    @property
    def worker(self) -> int | None:
        return self._worker if self.free > 0 else None

    @property
    def free(self) -> int:
        """How many executions this process can claim besides those that it drives or is claiming."""
        return 0 if self._worker is None else self._concurrency - len(self._active) - self._reserved

    def wake(self, execution: ExecutionRef, length: int | None = None) -> None:
        if self._notify is not None and execution not in self._active:
            self._notify(execution, length)
        self.receive(execution, length)

    def receive(self, execution: ExecutionRef, length: int | None = None) -> None:
        """A wake-up from another process, with the length of the journal after the change, if that is known.

        It often comes late: a round has claimed the execution before.
        """
        if length is None or self._handler is None or not self._handler.has_read(execution, length):
            self.signal(execution)
            self._hurry()

    def _hurry(self) -> None:
        """Begin the next round now. It claims all that is due, also what an engine has had no time to deliver."""
        self._is_hurried = True
        self._woken.set()

    def signal(self, execution: ExecutionRef) -> bool:
        """Make the driver of the execution read the journal again; False when it is not driven here."""
        if execution in self._claiming:
            self._claiming[execution] = True
        if execution not in self._active or self._handler is None:
            return False
        self._wake_again.add(execution)
        self._handler.signal(execution)
        return True

    async def claim(self, execution: ExecutionRef) -> asyncio.Task[None] | None:
        """Claim the execution that an engine delivers, and drive it in the task that is returned.

        That of one which is driven here already; None when it is not due, when a worker holds it, or when this process
        is not `free`.
        """
        if execution in self._active:
            return self._active[execution]
        worker = self.worker
        if worker is None:
            return None
        self._claiming[execution] = False
        try:
            with self._reserving(1):
                claimed = await self._journal.claim(execution, worker, self._clock.now())
            if claimed is None:
                return None
            self.adopt(execution, None if self._claiming.get(execution, True) else claimed)
        finally:
            self._claiming.pop(execution, None)
        return self._active.get(execution)

    def adopt(self, execution: ExecutionRef, claimed: Claimed | None = None) -> None:
        if self._worker is None:
            return
        if execution in self._active:
            self._wake_again.add(execution)
        elif self._resumed.pop(execution, None) is not None:
            self._launch(execution, self._handle_late)
        else:
            assert self._handler is not None  # noqa: S101
            self._launch(execution, partial(self._handler.handle, claimed=claimed))

    async def start(self, handler: Handler) -> None:
        self._handler = handler
        self._worker = await self._journal.register(self._machine, os.getpid())
        await self._release_dead_workers()
        self._rounds = asyncio.create_task(self._work())

    async def stop(self, grace: float) -> None:
        worker, self._worker = self._worker, None
        if worker is None:
            return
        try:
            if self._rounds is not None:
                self._rounds.cancel()
                await asyncio.gather(self._rounds, return_exceptions=True)
            await self._drain(worker, grace)
        finally:  # a cancelled stop waits no longer, and releases what it holds
            await self._release(worker)

    async def _release(self, worker: int) -> None:
        """Cancel active executions, and release the claims."""
        tasks = dict(self._active)
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        with self._logged("executions could not be released: others claim them once this worker counts as dead"):
            await self._journal.release(worker)
        for execution in tasks:
            self.wake(execution)

    async def _drain(self, worker: int, grace: float) -> None:
        """Wait for active executions, at most `grace` seconds, and send heartbeats meanwhile."""
        loop = asyncio.get_running_loop()
        end = loop.time() + grace
        while self._active and (left := end - loop.time()) > 0:
            await asyncio.wait(self._active.values(), timeout=min(HEARTBEAT, left))
            with self._logged("a heartbeat failed"):
                await self._journal.heartbeat(worker)

    # Rounds

    async def _work(self) -> None:
        """Run rounds until stopped. A failed round (a full disk, a locked database) is logged, and repeated."""
        while self._worker is not None:
            self._woken.clear()
            try:
                await self._round()
                moment = await self._next_round_at()
            except Exception as error:  # noqa: BLE001 - logged
                self._outage.failed_again(log, ROUND_FAILED, error)
                moment = self._clock.monotonic() + int(HEARTBEAT * 1000)
            else:
                self._outage.worked(log, ROUND_FAILED)
            await self._wait_for_wake(moment)

    async def _wait_for_wake(self, moment: int) -> None:
        """Wait for a wake-up, at most until `moment`, in milliseconds of monotonic time."""
        left = (moment - self._clock.monotonic()) / 1000
        if left > 0:
            cancel = self._clock.call_later(left, self._woken.set)
        else:
            cancel = asyncio.get_running_loop().call_later(RECLAIM_DELAY, self._woken.set).cancel
        try:
            await self._woken.wait()
        finally:
            cancel()

    async def _round(self) -> None:
        worker = self._worker
        if worker is None:
            return
        if self._clock.monotonic() >= self._next_beat:
            await self._beat(worker)
        free, claimed = min(self.free, CLAIM_BATCH), list[ExecutionRef]()
        if free > 0 and await self._is_something_due():
            with self._reserving(free):
                claimed = await self._claim_due(worker, free)
                found = await self._read_claimed(claimed)
            for execution in claimed:
                self.adopt(execution, found.get(execution))
                self._on_polled(execution)
        self._is_behind = len(claimed) == CLAIM_BATCH
        self._is_hurried |= self._is_behind

    async def _read_claimed(self, executions: Sequence[ExecutionRef]) -> dict[ExecutionRef, Claimed]:
        """What one read has found of these executions. Without those that were changed meanwhile: each is read again
        by its driver, which also reports why a read fails.
        """
        self._claiming |= dict.fromkeys(executions, False)
        found = list[Claimed]()
        try:
            with contextlib.suppress(Exception):
                found = await self._journal.with_entries(executions) if executions else found
        finally:
            changed = {execution for execution in executions if self._claiming.pop(execution, True)}
        return {one.execution.ref: one for one in found if one.execution.ref not in changed}

    async def _claim_due(self, worker: int, free: int) -> list[ExecutionRef]:
        return await self._journal.claim_due(worker, self._clock.now(), free)

    @contextlib.contextmanager
    def _reserving(self, count: int) -> Iterator[None]:
        """Keep these executions free while a claim is under way."""
        self._reserved += count
        try:
            yield
        finally:
            self._reserved -= count

    async def _beat(self, worker: int) -> None:
        began = self._clock.monotonic()
        if self._active:
            await self._journal.heartbeat(worker)
            await self._signal_foreign_writes()
        await self._release_dead_workers()
        await self._resume_lost_claims(worker)
        self._next_beat = began + int(HEARTBEAT * 1000)

    async def _resume_lost_claims(self, worker: int) -> None:
        """Drive executions claimed by a write whose outcome was lost: no task drives them, and no other worker can.

        The outcome can also be late: then what the write has left in memory is out of date when it comes.
        """
        held, now = await self._journal.held_by(worker), self._clock.monotonic()
        self._resumed = {one: at for one, at in self._resumed.items() if now - at < LATEST_OUTCOME * 1000}
        for execution in held:
            if execution not in self._active and execution not in self._claiming:
                self._resumed[execution] = now
                self._launch(execution, self._handle_if_mine)

    async def _is_something_due(self) -> bool:
        """Checked before a claim, because a claim is a write and this is a read."""
        lag, is_hurried, self._is_hurried = self._lag(), self._is_hurried, False
        if is_hurried or not lag:
            due = await self._journal.next_wake()
            return due is not None and due <= self._clock.now()
        now = self._clock.now()
        since = await self._journal.due_since(now)  # a time to come is that of a clock which was set back
        return since is not None and not now - lag * 1000 < since <= now

    def _is_delivered(self, due: int) -> bool:
        """Whether an engine delivers what is due then."""
        return self._engine_lag is not None and (self._lag() > 0 or due <= self._clock.now())

    def _lag(self) -> float:
        return 0.0 if self._engine_lag is None else self._engine_lag()

    async def _next_round_at(self) -> int:
        """When the next round is, in milliseconds of monotonic time: at the next heartbeat or the next due time.

        The wait for a due time is computed again at each heartbeat, because the wall clock can change meanwhile.
        """
        due = await self._journal.next_wake() if len(self._active) < self._concurrency else None
        if due is None or (self._is_delivered(due) and not self._is_behind):
            return self._next_beat
        return min(self._next_beat, self._clock.monotonic() + max(0, due - self._clock.now()))

    async def _signal_foreign_writes(self) -> None:
        assert self._handler is not None  # noqa: S101
        read = self._handler.lengths()
        for execution, length in (await self._journal.lengths(list(read))).items():
            if length > read[execution]:
                self._handler.signal(execution)

    async def _release_dead_workers(self) -> None:
        """Release the executions that dead workers hold."""
        others = [holder for holder in await self._journal.holders() if holder.worker != self._worker]
        now = self._clock.monotonic()
        self._silences = {holder.worker: self._silence_of(holder, now) for holder in others}
        self._polled_at = now
        for holder in others:
            if self._is_dead(holder):
                freed = await self._journal.release(holder.worker)
                extra = {"worker": holder.worker, "executions": freed}
                log.warning("worker died; its executions are released", extra=extra)

    def _is_dead(self, holder: Holder) -> bool:
        """On this machine the process table decides; elsewhere, the time without heartbeats. That time also decides
        for a process that hangs, and for another process with a reused number.
        """
        silence = self._silences[holder.worker].seconds
        if holder.host == self._machine:
            return not is_alive(holder.pid) or silence > STUCK_AFTER
        return silence >= DEAD_AFTER

    def _silence_of(self, holder: Holder, now: int) -> "Silence":
        """How long the number of heartbeats has been the same, by the monotonic clock of this process."""
        before = self._silences.get(holder.worker)
        if before is None or before.beats != holder.beats:
            return Silence(holder.beats, 0.0)
        return Silence(holder.beats, before.seconds + min((now - self._polled_at) / 1000, MAX_SILENCE_STEP))

    # Executions

    def _launch(self, execution: ExecutionRef, handle: Handle) -> None:
        task = asyncio.get_running_loop().create_task(self._handle(execution, handle))
        self._active[execution] = task

    async def _handle(self, execution: ExecutionRef, handle: Handle) -> None:
        """Drive the execution, and again while wake-ups arrived in the meantime."""
        try:
            await self._attempt(execution, handle)
            while execution in self._wake_again:
                self._wake_again.discard(execution)
                self._hurry()
                await self._attempt(execution, self._handle_if_mine)
        finally:
            del self._active[execution]
            self._wake_again.discard(execution)
            if len(self._active) == self._concurrency - 1 or self._journal.may_be_limited(execution.org):
                self._hurry()

    async def _attempt(self, execution: ExecutionRef, handle: Handle) -> None:
        """After a failure (a full disk, a locked database) the claim is kept, and the execution tried again later."""
        try:
            await handle(execution)
        except (GeneratorExit, SystemExit):
            raise
        except BaseException as error:
            if not is_failure(error):
                raise
            self._outage.failed(log, "an execution could not be driven", error, execution=execution.id)
            await self._clock.sleep(RETRY_DELAY)
            self._wake_again.add(execution)

    async def _handle_late(self, execution: ExecutionRef) -> None:
        """Drive the execution as the journal has it, and not as the write has left it in memory for this turn."""
        await asyncio.sleep(0)
        await self._handle_if_mine(execution)

    async def _handle_if_mine(self, execution: ExecutionRef) -> None:
        """Drive the execution if it still exists, and this worker still holds its claim."""
        assert self._handler is not None  # noqa: S101
        try:
            holder = (await self._journal.execution(execution)).claimed_by
        except NotFound:
            return
        if holder is not None and holder == self._worker:
            await self._handler.handle(execution)

    @contextlib.contextmanager
    def _logged(self, message: str) -> Iterator[None]:
        """Log a failure, and continue."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - logged
            self._outage.failed(log, message, error)


@attrs.frozen
class Silence:
    """The number of heartbeats of a worker, and the seconds for which this process has seen no other number."""

    beats: int
    seconds: float


def this_machine() -> str:
    """An identity within which process numbers are unique: host name, boot, and process namespace."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return "/".join(parts)


def is_alive(pid: int) -> bool:
    """Whether a process of this machine with that number runs. A zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    return True
