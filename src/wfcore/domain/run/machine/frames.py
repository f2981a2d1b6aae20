"""Children: a workflow called by an action, a skill or workflow called by an agent.

A child is a frame like the root's, opened by an effect of the frame around it (`outer`). It has its own graph, nodes
and scope; the clock, turns, bounds, events and usage are those of the execution (`top`). What it waits for, the frames
around it wait for too. It has no terminal of its own: its output is the result of the effect that opened it, a failure
that nothing in it catches is a failed attempt of that effect.
"""

from operator import attrgetter
from typing import TYPE_CHECKING

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import Address, Effect, OpenChild
from wfcore.domain.run.entries import Opened
from wfcore.domain.run.events import EventKind, place_to_wire
from wfcore.domain.run.machine.agents import Agents
from wfcore.domain.run.machine.execution import Frame
from wfcore.domain.run.machine.nodes import Nodes
from wfcore.domain.run.plan import Plan
from wfcore.domain.run.state import Interrupt

if TYPE_CHECKING:
    from collections.abc import Mapping


class Child(Agents):
    """A frame inside another one."""

    __slots__ = ("entry", "opener", "outer", "place", "top")

    def __init__(self, top: Agents, outer: Nodes, opener: OpenChild, entry: Opened, plan: Plan) -> None:
        super().__init__(plan)
        self.top, self.outer, self.opener, self.entry = top, outer, opener, entry
        self.within = frame_of(opener)
        self.path = (*outer.path, outer.plan.nodes[entry.node].id)
        batch = outer.batches.get(entry.node)
        self.items = (*outer.items, opener.address[-1] if batch is not None and batch.many else None)
        self.place = place_to_wire(self.path, self.items)
        self.prefix = f"{opener.key}/"
        self.label = f"{outer.label}{opener.key[len(outer.prefix) :]}:{opener.attempt}/"
        self.scope = {"input": entry.input, "nodes": self.nodes, "run": top.info}
        outer.children[opener.address] = self

    def copy(self, top: Agents, outer: Nodes) -> "Child":
        """An independent twin inside the twins of the frames around it."""
        twin = Child(top, outer, self.opener, self.entry, self.plan)
        twin._become(self)
        return twin

    # Its end

    def run(self) -> None:
        super().run()
        if self._over():
            output = self._collect()
            self.give_up()
            self.outer.child_done(self.opener, output)
        self.outer.run()

    def _over(self) -> bool:
        """Whether nothing is left to do; what was held back while the run is paused is something."""
        busy = self.pending or self.timers or self.interrupts or self.flow.ready or self.batches or self.talks
        return not busy and self.outer.children.get(self.opener.address) is self

    def give_up(self) -> None:
        super().give_up()
        for address in list(self.pending):
            self.drop(address)
        for address in list(self.timers):
            self.unset_timer(address)
        for name in list(self.interrupts):
            self.unset_interrupt(name)
        self.outer.unset_timer(self.opener.address)
        del self.outer.children[self.opener.address]

    def _break(self, error: dict[str, JSON]) -> None:
        self.give_up()
        self.outer.child_failed(self.opener, error["message"], error["info"]["reason"])

    def time_out(self) -> None:
        self.give_up()
        self.outer.child_failed(self.opener, f"no end within {self.opener.timeout:g} seconds", "timeout")

    def break_bound(self, message: str, bound: str) -> None:
        self.top.break_bound(message, bound)

    def is_fatal(self, effect: Effect, retryable: bool) -> bool:
        return super().is_fatal(effect, retryable) and self.outer.is_fatal(self.opener, True)

    # What the frames around it know as well

    def _request(self, effect: Effect) -> None:
        if not self.top.is_crowded():
            self.expect(effect)

    def expect(self, effect: Effect) -> None:
        super().expect(effect)
        self.outer.expect(effect)

    def drop(self, address: Address) -> None:
        super().drop(address)
        self.outer.drop(address)

    def set_timer(self, address: Address, due: int) -> None:
        super().set_timer(address, due)
        self.outer.set_timer(address, due)

    def unset_timer(self, address: Address) -> None:
        super().unset_timer(address)
        self.outer.unset_timer(address)

    def set_interrupt(self, interrupt: Interrupt) -> None:
        super().set_interrupt(interrupt)
        self.outer.set_interrupt(interrupt)

    def unset_interrupt(self, name: str) -> None:
        super().unset_interrupt(name)
        self.outer.unset_interrupt(name)

    def emit(self, kind: EventKind, data: "Mapping[str, JSON]") -> None:
        self.top.emit(kind, {**data, **self.place})

    # What it was given

    def _told_at_start(self) -> JSON:
        return self.entry.message or self.entry.input

    def _attached(self) -> "Mapping[str, JSON] | None":
        return None

    def _pinned_skill(self) -> str | None:
        return self.entry.variation_id if self.entry.kind == "skill" else None


def frame_of(opener: OpenChild) -> Address:
    """The frame that this attempt opens: no other attempt's effects are taken for its own."""
    return (*opener.address, opener.attempt)


def _shared(name: str) -> property:
    """What belongs to the whole execution is read and written there."""

    def write(child: Child, value: object) -> None:
        setattr(child.top, name, value)

    return property(attrgetter(f"top.{name}"), write)


for _name in set(Frame.__slots__) - {*Frame.OWN, "children"}:
    setattr(Child, _name, _shared(_name))
