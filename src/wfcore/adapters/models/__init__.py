"""Models behind the ModelProvider port, one module each."""
