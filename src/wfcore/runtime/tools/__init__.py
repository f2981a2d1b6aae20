"""Use cases on tools and connections, and tool calls."""
