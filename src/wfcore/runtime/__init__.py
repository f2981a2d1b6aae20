"""Use cases, and the driver that performs the effects of the run machine."""
