"""The embedded dispatcher: executions are driven in this process, and the store says which are due.

Any number of processes may work on one store. A claim is a column; a worker that died is noticed by the others, and
at once by a process on the same machine, which asks the operating system. Nothing is kept in memory for what waits.

The store is the truth, and looked at every beat. What processes tell each other (`tell`, `hear`) only saves the beat.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import attrs

from wfcore.ports.dispatcher import Capabilities, Handler
from wfcore.ports.journal import ExecutionRef, Holder, Journal
from wfcore.ports.system import Clock

log = logging.getLogger("wfcore.dispatcher")

Handle = Callable[[ExecutionRef], Awaitable[None]]

BEAT = 1.0
"""Seconds between two heartbeats, and two looks for the dead, for what is due and for what others wrote."""

AT_ONCE = 50
"""Executions that are claimed at once, so that several workers share what falls due together."""

SOON = 0.005
"""Seconds to the next round when something is due that this one did not get."""

SILENCE = 4.0
"""Seconds without a heartbeat after which a worker on another machine counts as dead."""

HEARING = 2 * BEAT
"""Seconds of silence that one look can find, at most: who was away or without a database has heard nobody."""

STUCK = 60.0
"""Seconds without a heartbeat after which no worker counts as alive, whatever the process table says."""

PATIENCE = 10.0
"""Seconds before an execution that could not be driven is tried again."""


class EmbeddedDispatcher:
    """Drives up to `concurrency` executions at once, each in a task of its own."""

    capabilities = Capabilities(
        serial_per_execution=True,
        transactional_wake=True,
        interrupts_running=True,
        timer_lag=BEAT,
        death_detected_within=SILENCE + BEAT,
    )

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        *,
        concurrency: int = 1_000,
        tell: Callable[[ExecutionRef], None] | None = None,
    ) -> None:
        """`tell` hears of every execution that others may have to look at; theirs is the `hear` of their dispatcher."""
        self._journal = journal
        self._clock = clock
        self._concurrency = concurrency
        self._tell = tell
        self._here = this_machine()
        self._worker: int | None = None
        self._handler: Handler | None = None
        self._active: dict[ExecutionRef, asyncio.Task[None]] = {}
        self._again: set[ExecutionRef] = set()
        self._news = asyncio.Event()
        self._rounds: asyncio.Task[None] | None = None
        self._next_beat = 0
        self._looked = 0
        self._silences: dict[int, Silence] = {}

    @property
    def worker(self) -> int | None:
        return self._worker if len(self._active) < self._concurrency else None

    def wake(self, execution: ExecutionRef) -> None:
        if self._tell is not None and execution not in self._active:
            self._tell(execution)
        self.hear(execution)

    def hear(self, execution: ExecutionRef) -> None:
        """The same as a wake-up, told by another process."""
        if execution in self._active and self._handler is not None:
            self._again.add(execution)
            self._handler.signal(execution)
        self._news.set()

    def adopt(self, execution: ExecutionRef) -> None:
        if self._worker is None:
            return
        if execution in self._active:
            self._again.add(execution)
        else:
            assert self._handler is not None  # noqa: S101
            self._launch(execution, self._handler.handle)

    async def start(self, handler: Handler) -> None:
        self._handler = handler
        self._worker = await self._journal.register(self._here, os.getpid(), self._clock.now())
        await self._bury_the_dead()
        self._rounds = asyncio.create_task(self._work())

    async def stop(self, grace: float) -> None:
        worker, self._worker = self._worker, None
        if worker is None:
            return
        if self._rounds is not None:
            self._rounds.cancel()
            await asyncio.gather(self._rounds, return_exceptions=True)
        await self._drain(worker, grace)
        tasks = dict(self._active)
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        with _told("executions could not be given back: they are taken up once this worker counts as dead"):
            await self._journal.release(worker)
        for execution in tasks:
            self.wake(execution)

    async def _drain(self, worker: int, grace: float) -> None:
        """Let what is under way come to a rest. Until then this worker is alive to the others."""
        loop = asyncio.get_running_loop()
        end = loop.time() + grace
        while self._active and (left := end - loop.time()) > 0:
            await asyncio.wait(self._active.values(), timeout=min(BEAT, left))
            with _told("a heartbeat failed"):
                await self._journal.heartbeat(worker, self._clock.now())

    # Rounds

    async def _work(self) -> None:
        """For ever: one failed round (a full disk, a locked database) is told, and the next one tries again."""
        while self._worker is not None:
            self._news.clear()
            try:
                await self._round()
                moment = await self._next_moment()
            except Exception:
                log.exception("a round of the dispatcher failed")
                moment = self._clock.now() + int(BEAT * 1000)
            await self._have_news(moment)

    async def _have_news(self, moment: int) -> None:
        """Until there are some, or it is that time."""
        left = (moment - self._clock.now()) / 1000
        if left > 0:
            call_off = self._clock.alarm(left, self._news.set)
        else:
            call_off = asyncio.get_running_loop().call_later(SOON, self._news.set).cancel
        try:
            await self._news.wait()
        finally:
            call_off()

    async def _round(self) -> None:
        worker, now = self._worker, self._clock.now()
        if worker is None:
            return
        if now >= self._next_beat:
            await self._beat(worker, now)
        free = min(self._concurrency - len(self._active), AT_ONCE)
        if free > 0 and await self._is_something_due():
            for execution in await self._journal.claim_due(worker, now, free):
                self.adopt(execution)

    async def _beat(self, worker: int, now: int) -> None:
        if self._active:
            await self._journal.heartbeat(worker, now)
            await self._notice_other_writers()
        await self._bury_the_dead()
        await self._take_up_what_is_held(worker)
        self._next_beat = now + int(BEAT * 1000)

    async def _take_up_what_is_held(self, worker: int) -> None:
        """Drive what was claimed by a write whose answer was lost: nobody here knows of it, and nobody else may."""
        for execution in await self._journal.held(worker):
            if execution not in self._active:
                self._launch(execution, self._handle_if_mine)

    async def _is_something_due(self) -> bool:
        """Asked first, because a claim is a write and this is none."""
        due = await self._journal.next_wake()
        return due is not None and due <= self._clock.now()

    async def _next_moment(self) -> int:
        """When the next round is: sooner than the next beat when something falls due before."""
        due = await self._journal.next_wake() if len(self._active) < self._concurrency else None
        return self._next_beat if due is None else min(self._next_beat, due)

    async def _notice_other_writers(self) -> None:
        assert self._handler is not None  # noqa: S101
        read = self._handler.lengths()
        for execution, length in (await self._journal.lengths(list(read))).items():
            if length > read[execution]:
                self._handler.signal(execution)

    async def _bury_the_dead(self) -> None:
        """Free what dead workers hold."""
        others = [holder for holder in await self._journal.holders() if holder.worker != self._worker]
        now = self._clock.now()
        self._silences = {holder.worker: self._silence_of(holder, now) for holder in others}
        self._looked = now
        for holder in others:
            if self._is_dead(holder, now):
                freed = await self._journal.release(holder.worker)
                extra = {"worker": holder.worker, "executions": freed}
                log.warning("worker died; its executions are taken up", extra=extra)

    def _is_dead(self, holder: Holder, now: int) -> bool:
        """Here the process table tells; elsewhere, or of a process that is there but does nothing (or is another one
        with the same number), only silence.
        """
        if holder.host == self._here:
            return not is_alive(holder.pid) or (now - holder.seen_at) / 1000 > STUCK
        return self._silences[holder.worker].seconds >= SILENCE

    def _silence_of(self, holder: Holder, now: int) -> "Silence":
        """How long it has been silent by our own clock: those of two machines differ."""
        before = self._silences.get(holder.worker)
        if before is None or before.seen_at != holder.seen_at:
            return Silence(holder.seen_at, 0.0)
        return Silence(holder.seen_at, before.seconds + min((now - self._looked) / 1000, HEARING))

    # Executions

    def _launch(self, execution: ExecutionRef, handle: Handle) -> None:
        task = asyncio.get_running_loop().create_task(self._handle(execution, handle))
        self._active[execution] = task

    async def _handle(self, execution: ExecutionRef, handle: Handle) -> None:
        """Have it driven, and once more for whatever came in meanwhile."""
        try:
            await self._try(execution, handle)
            while execution in self._again:
                self._again.discard(execution)
                self._news.set()
                await self._try(execution, self._handle_if_mine)
        finally:
            del self._active[execution]
            self._again.discard(execution)
            if len(self._active) == self._concurrency - 1:
                self._news.set()

    async def _try(self, execution: ExecutionRef, handle: Handle) -> None:
        """A failure (a full disk, a locked database) keeps the claim, and is followed by another try after a while."""
        try:
            await handle(execution)
        except Exception:
            log.exception("an execution could not be driven", extra={"execution": execution.id})
            await self._clock.sleep(PATIENCE)
            self._again.add(execution)

    async def _handle_if_mine(self, execution: ExecutionRef) -> None:
        """It may have been adopted again, or given away, since it was handled."""
        assert self._handler is not None  # noqa: S101
        holder = (await self._journal.execution(execution)).claimed_by
        if holder is not None and holder == self._worker:
            await self._handler.handle(execution)


@contextlib.contextmanager
def _told(message: str) -> Iterator[None]:
    """A failure (of the store) is logged, and the end goes on."""
    try:
        yield
    except Exception:
        log.exception(message)


@attrs.frozen
class Silence:
    """The last sign of life of a worker, and how many seconds there has been no other."""

    seen_at: int
    seconds: float


def this_machine() -> str:
    """What tells machines apart as far as process numbers go: host name, boot, and process namespace."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return "/".join(parts)


def is_alive(pid: int) -> bool:
    """Whether a process of this machine with that number runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    return True
