"""Beside this file stands what several kinds of tests share: pytest makes it importable."""

import sys


def pytest_runtest_logfinish() -> None:
    """A test has ended, with all its fixtures."""
    if server := sys.modules.get("postgres_server"):
        server.give_back()
