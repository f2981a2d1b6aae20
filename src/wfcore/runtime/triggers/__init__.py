"""Triggers that start runs: schedules and webhooks."""
