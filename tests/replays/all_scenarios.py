"""What is frozen: executions of all kinds, by name."""

import agent_scenarios
import child_scenarios
import graph_scenarios
import repair_scenarios
import turn_scenarios
from playing import SCENARIOS

__all__ = ["SCENARIOS", "agent_scenarios", "child_scenarios", "graph_scenarios", "repair_scenarios", "turn_scenarios"]
