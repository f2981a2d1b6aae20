"""Channels: chat pages, team chats and protocol servers through which people and programs reach a workflow."""
