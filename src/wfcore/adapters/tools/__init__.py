"""The tool catalog of an installation."""
