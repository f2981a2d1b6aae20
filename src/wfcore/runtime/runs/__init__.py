"""Use cases on runs: start, read, follow, resume, cancel."""
