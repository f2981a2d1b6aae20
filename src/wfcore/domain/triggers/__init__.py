"""Triggers: schedules, cron expressions, webhooks."""
