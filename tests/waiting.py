"""How long tests wait. No limit says how fast the machine is: each ends what would never happen, and nothing else."""

HANG = 500
"""Seconds for what ends by itself: a process, a request, a run. The `timeout` of pytest is longer."""

PATIENCE = 120
"""Seconds for a condition that is looked at again and again: so long waits a test that fails for good reason."""
