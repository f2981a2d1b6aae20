"""Implementations of the port `ModelProvider`, one module for each wire format."""
