"""Dispatch by Temporal, for teams that run it: a workflow wakes workers for each execution that has something due."""
