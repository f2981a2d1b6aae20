"""The contracts of guardrails and of verifiers of tokens."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from issuing import AUDIENCE, ISSUER, jwks, token

from wfcore.adapters.guardrails import GuardrailCatalog
from wfcore.adapters.oauth import AccessTokens
from wfcore.adapters.oauth.cache import KeyCache
from wfcore.adapters.oauth.keys import read_keys
from wfcore.ports.guardrails import Guardrail
from wfcore.ports.identity import TokenVerifier
from wfcore.testing.contracts.checks.guardrails import GuardrailContract
from wfcore.testing.contracts.checks.verifiers import TokenVerifierContract
from wfcore.testing.fakes import FakeClock


class TestRedaction(GuardrailContract):
    def make_guardrail(self) -> Guardrail:
        found = GuardrailCatalog().get("redact-emails")
        assert found is not None
        return found


class TestPatternBlock(GuardrailContract):
    def make_guardrail(self) -> Guardrail:
        found = GuardrailCatalog().get({"name": "block-patterns", "patterns": ["canary"]})
        assert found is not None
        return found


class TestAccessTokens(TokenVerifierContract):
    @asynccontextmanager
    async def open_verifier(self) -> AsyncIterator[tuple[TokenVerifier, str]]:
        clock = FakeClock()
        verifier = AccessTokens(ISSUER, AUDIENCE, clock)

        async def fetch() -> Any:
            await asyncio.sleep(0)
            return read_keys(jwks())

        verifier._keys = KeyCache(fetch, clock)
        yield verifier, token()
