"""Workflows and skills that files declare: `wfcore apply`, `diff` and `export`."""
