"""What a deploy of a workflow means for its runs."""
