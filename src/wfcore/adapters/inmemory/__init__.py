"""Stores in memory, for tests, first steps and simulation. Their content is lost when the process ends."""
