"""Organizations, members, groups and access tokens."""
