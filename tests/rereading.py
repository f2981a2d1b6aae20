"""Machines that were read from snapshots, for tests that compare them with folds."""

import sys
from unittest.mock import patch

from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.machine.states import snapshots
from wfcore.domain.run.plan import Plan


def reread(machine: Machine, first: Plan) -> Machine:
    """The same machine, from its snapshot; `first` is the plan with which the run began."""
    machine.take_records()
    with patch.object(snapshots, "MOST", sys.maxsize):  # a hostile model can make a state of any size
        body = snapshots.written(machine.state)
    assert body is not None
    stored = snapshots.read(body)
    assert stored is not None
    return Machine.of(stored.run(first, machine.plans))
