"""What the stores keep beside the entries of a run, computed from entries and records: audit, messages, usage, cost.

A journal writes these rows as they are; it has no rule of its own about them.
"""
