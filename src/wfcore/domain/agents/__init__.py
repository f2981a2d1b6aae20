"""Agents: what a model is sent, and what limits it."""
