"""The contract of outbound messages for the guarded adapter, and the guard."""

import pytest

from wfcore.adapters.outbound.guard import AddressGuard
from wfcore.adapters.outbound.post import GuardedOutbound
from wfcore.ports.outbound import Outbound, Undelivered
from wfcore.testing.contracts.outbound import BODY, OutboundContract, Receiver

pytestmark = pytest.mark.anyio


class TestGuardedOutbound(OutboundContract):
    def make(self) -> Outbound:
        return GuardedOutbound(AddressGuard.allowing(["127.0.0.1"]))

    async def test_a_private_address_is_refused(self) -> None:
        """Nothing is sent to an address that is not public."""
        receiver = Receiver()
        async with receiver.open() as url:
            with pytest.raises(Undelivered):
                await GuardedOutbound(AddressGuard()).post(url, {}, BODY)
        assert receiver.heads == []

    async def test_a_server_without_a_response(self) -> None:
        """`Undelivered` is raised after the timeout."""
        with pytest.raises(Undelivered):
            await GuardedOutbound(AddressGuard.allowing(["127.0.0.1"]), seconds=0).post("http://127.0.0.1:9/", {}, BODY)
