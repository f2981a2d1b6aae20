"""Channels through which users and programs reach deployed workflows."""
