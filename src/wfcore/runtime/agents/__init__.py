"""Use cases on what agents know, and the calling of models."""
