"""What visits leave behind when their run ends before them: read off a frame before it is given up."""

from wfcore.domain.run.machine.states.state import Frame, Left


def under_way(frame: Frame) -> set[int]:
    """The nodes in the middle of a visit, as far as something shows of it."""
    own = len(frame.place.within) + 3
    waiting = (frame.pending, frame.timers, frame.children)
    found = {address[-3] for addresses in waiting for address in addresses if len(address) == own}
    return found.union(frame.batches, frame.loops, frame.waits)


def remains(frame: Frame, index: int) -> Left:
    """What the current visit of the node leaves behind."""
    left, batch, loop = Left(), frame.batches.get(index), frame.loops.get(index)
    left.batch, left.loop = batch, loop and loop.copy()
    for step in range(-1, loop.next if loop else batch.next if batch else 1):
        address = (*frame.place.within, index, frame.visits[index], step)
        if address in frame.pending:
            left.effects[step] = frame.pending[address]
        if address in frame.children:
            left.children[step] = frame.children[address]
        elif address in frame.timers:
            left.timers[step] = frame.timers[address]
    for step, name in frame.waits.get(index, {}).items():
        left.waits[step] = frame.interrupts[name], frame.held.get(name)
    return left
