"""The driver: it performs the effects of executions and appends their outcomes to the journal."""
