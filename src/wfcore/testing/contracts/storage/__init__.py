"""The contract suite of the storage port, one part for each repository."""
