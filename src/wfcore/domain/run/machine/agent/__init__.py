"""The agent loop: model calls, rounds of tool calls, budgets."""
