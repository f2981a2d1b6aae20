"""Long-term memories in mem0 (docs.mem0.ai), stored locally: no telemetry, no model, no network."""

from wfcore.adapters.mem0.memories import Mem0Memories

__all__ = ["Mem0Memories"]
