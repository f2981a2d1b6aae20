"""The type of JSON values."""

from typing import Any

JSON = Any
"""A JSON value: None, bool, int, float, str, list or dict with str keys."""
