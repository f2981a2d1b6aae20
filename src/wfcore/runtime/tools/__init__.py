"""Use cases on tools and connections, and the calling of tools."""
