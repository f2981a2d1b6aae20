"""The contract of verifiers of access tokens, as a suite to inherit.

class TestMine(TokenVerifierContract):
    @asynccontextmanager
    async def open_verifier(self) -> AsyncIterator[tuple[TokenVerifier, str]]:
        yield Mine(...), token
"""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Final

import pytest

from wfcore.domain.kernel.ids import is_uuid
from wfcore.ports.identity import TokenVerifier
from wfcore.testing.contracts.interrupted.calls import CancelAt
from wfcore.testing.on_asyncio import OnAsyncio, limited

Verified = tuple[TokenVerifier, str]

HOSTILE: Final = (
    "", " ", ".", "..", "a.b.c", "e30.e30.", "eyJhbGciOiJub25lIn0.e30.", "\x00", "\ud800", "ä.ö.ü", "a" * 100_000,
    "svc_x_y_z", "Bearer x", "{}", "null",
)  # fmt: skip
"""Texts that are not valid tokens."""


class TokenVerifierContract(OnAsyncio):
    """Inherit, name the class `Test...`, and write `open_verifier`."""

    @abstractmethod
    def open_verifier(self) -> AbstractAsyncContextManager[Verified]:
        """A verifier, and a token that is valid now."""

    @pytest.fixture
    async def verified(self, anyio_backend: str) -> AsyncIterator[Verified]:
        async with self.open_verifier() as verified:
            yield verified

    async def test_a_valid_token_states_an_identity(self, verified: Verified) -> None:
        """The same each time, of an organization and a user."""
        verifier, token = verified
        first, second = await verifier.verify(token), await verifier.verify(token)
        assert first is not None
        assert first == second
        assert is_uuid(first.org_uuid)
        assert first.user_id
        assert verifier.issuer
        assert verifier.audience

    @pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:12]))
    async def test_another_text_states_none(self, verified: Verified, text: str) -> None:
        """It is None, and not an exception; the valid token is still accepted."""
        verifier, token = verified
        assert await verifier.verify(text) is None
        assert await verifier.verify(token) is not None

    async def test_an_altered_token_states_none(self, verified: Verified) -> None:
        """A token that is cut, extended, or has another character in the middle of any part."""
        verifier, token = verified
        parts = token.split(".")
        middles = [token.index(part) + len(part) // 2 for part in parts]
        altered = [f"{token[:at]}{'A' if token[at] != 'A' else 'B'}{token[at + 1 :]}" for at in middles]
        for text in (token[:-8], token[1:], f"{token}.{parts[-1]}", *altered):
            assert await verifier.verify(text) is None

    async def test_verified_at_once(self, verified: Verified) -> None:
        """Valid and invalid tokens at the same time have their own results."""
        verifier, token = verified
        expected = await verifier.verify(token)
        found = await asyncio.gather(*(verifier.verify(text) for text in (token, "x.y.z") * 8))
        assert found == [expected, None] * 8

    @pytest.mark.parametrize("step", [1, 2, 3])
    async def test_a_cancelled_verification(self, verified: Verified, step: int) -> None:
        """Cancelled at any await, it leaves a verifier that accepts the token."""
        verifier, token = verified
        work = CancelAt(verifier.verify(token), step)
        async with limited():
            await asyncio.gather(asyncio.ensure_future(work), return_exceptions=True)
            assert await verifier.verify(token) is not None
