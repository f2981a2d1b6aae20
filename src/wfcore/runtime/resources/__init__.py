"""Use cases on workflows and skills."""
