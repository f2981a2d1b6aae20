"""One module for each step, numbered in order."""
