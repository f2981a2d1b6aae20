"""The port `Journal` in dicts."""
