"""The chat page of a workflow."""
