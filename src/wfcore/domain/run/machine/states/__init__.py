"""The data of a run, and the tables of legal moves of turns, rounds, attempts and interrupts."""
