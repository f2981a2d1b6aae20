"""Agents: requests to models, and their limits."""
