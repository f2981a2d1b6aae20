"""The base of contract suites with coroutines."""

import pytest


class OnAsyncio:
    """Every `async` test runs on asyncio, with the plugin of anyio."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"
