"""The base of contract suites with coroutines."""

import asyncio

import pytest

HANG = 120.0
"""Seconds after which a wait counts as endless; a test that passes never comes near it, on however busy a machine."""


def limited() -> asyncio.Timeout:
    """A block that raises TimeoutError when it hangs."""
    return asyncio.timeout(HANG)


class OnAsyncio:
    """Every `async` test runs on asyncio, with the plugin of anyio."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"
