"""What the contract suites of ports with coroutines inherit."""

import pytest


class OnAsyncio:
    """Every `async` test runs on asyncio, by the plugin of anyio."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"
