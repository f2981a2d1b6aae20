"""The run machine: it applies journal entries, and yields effects and events."""
