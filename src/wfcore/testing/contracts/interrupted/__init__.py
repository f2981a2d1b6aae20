"""Calls of ports that are cancelled, made several times at once, or cut short by the end of their process."""
