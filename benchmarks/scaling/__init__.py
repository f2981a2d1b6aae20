"""What many machines need: constants that are measured, a calculation and a simulation."""
