"""What `open` accepts, and the principals that an embedding product creates for its own users."""

from typing import Any

import pytest

import wfcore
from wfcore.adapters.dispatch.event_hub import EventHub
from wfcore.adapters.inmemory.blobs import InMemoryBlobs
from wfcore.adapters.inmemory.memories import InMemoryMemories
from wfcore.adapters.outbound.guard import AddressGuard
from wfcore.adapters.outbound.mcp_servers import McpServers
from wfcore.adapters.outbound.post import GuardedOutbound
from wfcore.adapters.system import RandomIds, SystemClock
from wfcore.runtime.common.deprecated import PLACES
from wfcore.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "wrong",
    [
        {"synchronous": "OFF"},
        {"busy_seconds": -1},
        {"busy_seconds": float("inf")},
        {"grace": -1},
        {"grace": float("nan")},
        {"max_concurrent_runs": 0},
        {"public_url": "x"},
    ],
)
async def test_a_setting_that_cannot_be_used(wrong: dict[str, Any]) -> None:
    """Is refused by name, before a use of it fails."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        wfcore.Settings(**wrong)
    assert wfcore.Settings(busy_seconds=0, grace=0, public_url="https://flows.example.org/a/").max_concurrent_runs


@pytest.mark.parametrize("wrong", [b"x", wfcore.Secrets(b"x" * 32, previous=[b"y" * 31])])
async def test_a_key_of_another_length(wrong: Any) -> None:
    """Fails the start and not the first connection."""
    with pytest.raises(ValueError, match="every key of `secrets` must be 32 bytes"):
        async with wfcore.open("sqlite://", secrets=wrong):
            pass


@pytest.mark.parametrize("argument", ["org", "user", "groups"])
async def test_a_record_instead_of_its_id_is_refused_by_name(argument: str) -> None:
    """`principal` refuses it, before a call reaches the database."""
    async with wfcore.open("sqlite://", worker=False) as core:
        org = await core.directory.create_organization("Acme")
        group = await core.directory.create_group(org.uuid, "Sales")
        given: dict[str, Any] = {"org": org.uuid, "user": "u1", "groups": [group.id]}
        assert core.principal(**given).groups == {group.id}
        wrong = {"org": org, "user": 7, "groups": [group]}
        with pytest.raises(TypeError, match=f"`{argument}`"):
            core.principal(**given | {argument: wrong[argument]})


@pytest.mark.parametrize(("argument", "wrong"), [("org", "acme"), ("groups", ["Sales"])])
async def test_an_id_that_is_not_a_uuid_is_refused(argument: str, wrong: Any) -> None:
    """A name in place of an id would grant nothing, so `principal` refuses it at once."""
    async with wfcore.open("sqlite://", worker=False) as core:
        org = await core.directory.create_organization("Acme")
        given: dict[str, Any] = {"org": org.uuid, "user": "u1", "groups": []}
        with pytest.raises(ValueError, match=f"`{argument}`: `.*` is not a UUID"):
            core.principal(**given | {argument: wrong})


@pytest.mark.parametrize("wrong", ["", "u" * 256])
async def test_a_user_without_a_usable_id_is_refused(wrong: str) -> None:
    """The empty id of a visitor who is not signed in would be one owner for all of them."""
    async with wfcore.open("sqlite://", worker=False) as core:
        org = await core.directory.create_organization("Acme")
        with pytest.raises(ValueError, match="`user`: must have 1 to 255 characters"):
            core.principal(org.uuid, wrong)
        assert core.principal(org.uuid, "u" * 255).user_id == "u" * 255


OWN = {
    "events": EventHub(),
    "memories": InMemoryMemories(),
    "blobs": InMemoryBlobs(),
    "clock": FakeClock(),
    "ids": RandomIds(),
    "tool_servers": McpServers(AddressGuard(), SystemClock()),
    "outbound": GuardedOutbound(AddressGuard()),
}


@pytest.mark.parametrize("name", OWN)
async def test_a_port_is_replaced(name: str) -> None:
    ports = wfcore.Overrides(**{name: OWN[name]})  # type: ignore[arg-type]
    async with wfcore.open("sqlite://", ports=ports, worker=False) as core:
        assert getattr(core.ports, name) is OWN[name]


START = {"id": "start", "type": "start"}


class TestFormerKeywords:
    """Each warns at its caller with its new place, and has the same effect there."""

    @pytest.mark.parametrize("name", OWN)
    async def test_a_port(self, name: str) -> None:
        with pytest.warns(DeprecationWarning, match=f"use `ports=Overrides\\({name}=...\\)`") as caught:
            opening = wfcore.open("sqlite://", worker=False, **{name: OWN[name]})  # type: ignore[arg-type]
        assert [warning.filename for warning in caught] == [__file__]
        async with opening as core:
            assert getattr(core.ports, name) is OWN[name]

    async def test_stores_and_the_dispatcher(self) -> None:
        async with wfcore.open("sqlite://", worker=False) as first:
            given: Any = {name: getattr(first.ports, name) for name in ("storage", "journal", "dispatcher")}
            with pytest.warns(DeprecationWarning, match="is deprecated") as caught:
                opening = wfcore.open(worker=False, **given)
            uses = [str(each.message).partition(": ")[2] for each in caught]
            assert uses == [f"use `{PLACES[name]}`" for name in given]
            async with opening as core:
                org = (await core.directory.create_organization("Acme")).uuid
                me = core.principal(org, "u1")
                flow = await core.workflows.create(me, name="W", structure={"nodes": [START], "edges": []})
                assert (await first.workflows.get(me, flow.id)).resource == flow.resource
                await core.workflows.deploy(me, flow.id)
                run = await core.runs.start(me, workflow=flow.id, input={})
                assert (await first.runs.get(me, run.id)).id == run.id
                assert core.ports.dispatcher is given["dispatcher"]

    @pytest.mark.parametrize(("name", "value"), [("synchronous", "NORMAL"), ("grace", 0.5)])
    async def test_a_setting(self, name: str, value: Any) -> None:
        with pytest.warns(DeprecationWarning, match=rf"`{name}` .* use `settings=Settings\({name}=\.\.\.\)`"):
            opening = wfcore.open("sqlite://", worker=False, settings=wfcore.Settings(hold_for=1), **{name: value})
        async with opening as core:
            assert core.ports.settings == wfcore.Settings(hold_for=1, **{name: value})

    async def test_secrets(self) -> None:
        old, new = b"o" * 32, b"n" * 32
        async with wfcore.open("sqlite://", worker=False, secrets=old) as core:
            sealed = core.ports.sealer.seal("text", "place")
        with pytest.warns(DeprecationWarning, match="use `secrets=") as caught:
            opening = wfcore.open("sqlite://", worker=False, secret=new, previous_secrets=[old])
        assert len(caught) == 2
        async with opening as core:
            assert core.ports.sealer.open(sealed, "place") == "text"

    def test_an_unknown_keyword(self) -> None:
        with pytest.raises(TypeError, match=r"unknown argument `strcture` of `wfcore\.open`"):
            wfcore.open("sqlite://", strcture=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["storage", "journal"])
async def test_storage_and_journal_are_replaced_together(name: str) -> None:
    async with wfcore.open("sqlite://", worker=False) as core:
        with pytest.raises(ValueError, match="`storage` and `journal` must be given together"):
            wfcore.Overrides(**{name: getattr(core.ports, name)})


@pytest.mark.parametrize("shards", [{"main": "postgresql://127.0.0.1:1/w"}, {"b": "sqlite:///b.db"}])
async def test_shards_are_further_servers(shards: dict[str, str]) -> None:
    """Neither the database of `open` nor a file."""
    with pytest.raises(ValueError, match="`shards` are further PostgreSQL databases"):
        async with wfcore.open("postgresql://127.0.0.1:1/w", settings=wfcore.Settings(shards=shards)):
            pass
