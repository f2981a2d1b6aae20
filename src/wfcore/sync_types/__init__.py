"""What the areas of `wfcore.SyncCore` are for type checkers and editors; nothing here is imported by a program.

`python tests/typing/write_sync_types.py` writes the stubs from the classes of the areas.
"""
