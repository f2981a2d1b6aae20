"""What a journal stores of executions: the rows that it returns, and what is written to it."""
