"""The contract of wfcore's own messages, kept by the adapter behind the guard; and what the guard adds."""

import pytest

from wfcore.adapters.outbound.guard import AddressGuard
from wfcore.adapters.outbound.post import GuardedOutbound
from wfcore.ports.outbound import Outbound, Undelivered
from wfcore.testing.contracts.outbound import BODY, OutboundContract, Receiver

pytestmark = pytest.mark.anyio


class TestGuardedOutbound(OutboundContract):
    def make(self) -> Outbound:
        return GuardedOutbound(AddressGuard.allowing(["127.0.0.1"]))

    async def test_what_the_operator_does_not_let_through(self) -> None:
        """Nothing is sent to an address that is not public."""
        receiver = Receiver()
        async with receiver.open() as url:
            with pytest.raises(Undelivered):
                await GuardedOutbound(AddressGuard()).post(url, {}, BODY)
        assert receiver.heads == []

    async def test_who_never_answers(self) -> None:
        """`Undelivered` when the time is over."""
        with pytest.raises(Undelivered):
            await GuardedOutbound(AddressGuard.allowing(["127.0.0.1"]), seconds=0).post("http://127.0.0.1:9/", {}, BODY)
