"""Contract suites: the tests that every adapter of a port must pass."""
