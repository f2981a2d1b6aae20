"""The contracts of what checks tokens and texts."""
