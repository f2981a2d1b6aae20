"""Channels through which people and programs reach deployed workflows."""
