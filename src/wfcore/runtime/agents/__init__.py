"""Use cases on memories, context items, contexts and conversations, and the model calls of agents."""
