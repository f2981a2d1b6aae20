"""Rate limiters: the counts of one process, and those of a Valkey or Redis server."""
