"""Use cases, and the driver that performs what the run machine asks for."""
