"""The journal port on SQL: runs, entries, interrupts and claims."""
