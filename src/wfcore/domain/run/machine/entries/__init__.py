"""What each journal entry does to a run: outcomes of effects, turns, progress along the graph."""
