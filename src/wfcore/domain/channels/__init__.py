"""Channels: chat pages, team chats and protocol servers through which people and programs call a workflow."""
