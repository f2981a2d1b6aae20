"""The run machine: it applies journal entries, and yields effects and events."""

from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.machine.states.state import NO_PLANS, Plans

__all__ = ["NO_PLANS", "Machine", "Plans"]
