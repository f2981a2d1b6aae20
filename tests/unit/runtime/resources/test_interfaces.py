"""Interface rows of workflows, through the library (interface, Remove every interface from a workflow)."""

from typing import Any

import attrs
import pytest
from bench import Bench, paths

from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, Malformed, NotFound

pytestmark = pytest.mark.anyio

BAD_BODIES: list[tuple[Any, Any, str, str]] = [
    ({}, Malformed, "kind", "required"),
    ({"kind": 1}, Malformed, "kind", "type"),
    ({"kind": "fax"}, Invalid, "kind", "enum"),
    ({"kind": "mcp", "config": []}, Malformed, "config", "type"),
    ({"kind": "mcp", "url": "x"}, Invalid, "url", "unknown"),
    ({"kind": "mcp", "id": "x"}, Invalid, "id", "unknown"),
]


async def new_flow(bench: Bench, **fields: Any) -> int:
    return (await bench.core.workflows.create(bench.me, name="f", **fields)).id


class TestRows:
    """Create, read, change, remove."""

    async def test_create_read_change_delete(self, bench: Bench) -> None:
        """A created row is read, listed, changed and deleted; each call returns the row."""
        number, rows = await new_flow(bench), bench.core.workflows.interfaces
        made = await rows.create(bench.me, number, kind="mcp", config={"z": 1, "a": [1.0]})
        wire = made.to_wire()
        assert wire.keys() == {"id", "kind", "config", "createdAt", "url"}
        assert (wire["kind"], wire["url"]) == ("mcp", f"/interfaces/mcp/{made.id}")
        assert await rows.get(bench.me, number, made.id) == made
        plain = await rows.create(bench.other, number, {"kind": "chatapp", "organizationId": "ignored"})
        assert plain.config == {}
        assert await rows.page(bench.me, number) == sorted([made, plain], key=lambda row: row.id)
        changed = await rows.patch(bench.me, number, made.id, config={"b": None})
        assert changed == attrs.evolve(made, config={"b": None})
        assert await rows.patch(bench.me, number, made.id, {}) == changed
        assert await rows.delete(bench.me, number, made.id) == changed
        with pytest.raises(NotFound):
            await rows.get(bench.me, number, made.id)
        assert await rows.page(bench.me, number) == [plain]

    async def test_a_stored_response_has_no_secret(self, bench: Bench) -> None:
        """The sealed secret is in the row alone, where a new one replaces it; a repeated create returns the rest."""
        number, rows = await new_flow(bench), bench.core.workflows.interfaces
        made = await rows.create(bench.me, number, kind="teamchat", key="k")
        again = await rows.create(bench.me, number, kind="teamchat", key="k")
        assert again.to_wire() == made.to_wire()
        stored = [text async for batch in bench.core.ports.storage.maintenance.texts(bench.org) for text in batch]
        assert made.sealed
        assert "\n".join(stored).count(made.sealed) == 1

    async def test_clearing_removes_every_row_of_one_workflow(self, bench: Bench) -> None:
        """It returns how many there were, then 0, and leaves other workflows unchanged."""
        number, other, rows = await new_flow(bench), await new_flow(bench), bench.core.workflows.interfaces
        for kind in ("mcp", "mcp", "teamchat"):
            await rows.create(bench.me, number, kind=kind)
        kept = await rows.create(bench.me, other, kind="mcp")
        assert [await rows.clear(bench.me, number), await rows.clear(bench.me, number)] == [3, 0]
        assert await rows.page(bench.me, number) == []
        assert await rows.page(bench.me, other) == [kept]

    async def test_a_row_belongs_to_its_workflow(self, bench: Bench) -> None:
        """Below another workflow it does not exist for any call."""
        number, other, rows = await new_flow(bench), await new_flow(bench), bench.core.workflows.interfaces
        made = await rows.create(bench.me, number, kind="mcp")
        for call in (rows.get, rows.delete, rows.patch):
            with pytest.raises(NotFound):
                await call(bench.me, other, made.id)
        assert await rows.get(bench.me, number, made.id) == made

    async def test_pages(self, bench: Bench) -> None:
        """At most `limit`, by id, each row once."""
        number, rows = await new_flow(bench), bench.core.workflows.interfaces
        made = [(await rows.create(bench.me, number, kind="mcp")).id for _ in range(5)]
        found, after = list[str](), ""
        while page := await rows.page(bench.me, number, limit=2, after=after):
            assert len(page) <= 2
            after = page[-1].id
            found += [row.id for row in page]
        assert found == sorted(made)

    async def test_bad_bodies(self, bench: Bench) -> None:
        """Each error has its path; fields of the server are unknown; nothing is written."""
        number, rows = await new_flow(bench), bench.core.workflows.interfaces
        for body, error, path, rule in BAD_BODIES:
            with pytest.raises(error) as found:
                await rows.create(bench.me, number, body)
            assert paths(found) == {(path, rule)}
        assert await rows.page(bench.me, number) == []

    @pytest.mark.parametrize(
        ("kind", "config"),
        [("chatapp", {"frameAncestors": None}), ("mcp", {"title": None, "description": None}),
         ("teamchat", {"postUrl": None, "approvals": None, "format": None, "signingSecret": None})],
    )  # fmt: skip
    async def test_null_in_the_config_is_absent(self, bench: Bench, kind: Any, config: dict[str, Any]) -> None:
        """Of a create and of a PATCH, and of a skill too; keys of the client keep null."""
        number, rows = await new_flow(bench), bench.core.workflows.interfaces
        own = {} if kind == "teamchat" else {"x": None}
        made = await rows.create(bench.me, number, kind=kind, config=config | own)
        assert made.config == own
        assert await rows.patch(bench.me, number, made.id, config=config | own) == made
        if kind != "teamchat":
            skill = await bench.core.skills.create(
                bench.me, name="s", interfaces=[{"kind": kind, "config": config | own}]
            )
            assert skill.to_wire()["variation"]["interfaces"] == [{"kind": kind, "config": own}]

    async def test_the_kind_of_a_row_stays(self, bench: Bench) -> None:
        """Only the configuration can be changed."""
        number, rows = await new_flow(bench), bench.core.workflows.interfaces
        made = await rows.create(bench.me, number, kind="mcp")
        with pytest.raises(Invalid):
            await rows.patch(bench.me, number, made.id, {"kind": "chatapp"})


class TestKeys:
    """Creates honour an Idempotency-Key."""

    async def test_a_key_makes_one_row(self, bench: Bench) -> None:
        """The same key and body: the same row. Another body or workflow: 409. Another caller's key is independent."""
        number, other, rows = await new_flow(bench), await new_flow(bench), bench.core.workflows.interfaces
        first = await rows.create(bench.me, number, {"kind": "mcp"}, key="k")
        assert await rows.create(bench.me, number, {"kind": "mcp"}, key="k") == first
        for wrong, body in ((number, {"kind": "chatapp"}), (other, {"kind": "mcp"})):
            with pytest.raises(Conflict) as error:
                await rows.create(bench.me, wrong, body, key="k")
            assert error.value.info["reason"] == "key_reused"
        assert (await rows.create(bench.other, number, {"kind": "mcp"}, key="k")).id != first.id
        assert len(await rows.page(bench.me, number)) == 2
        with pytest.raises(Malformed):
            await rows.create(bench.me, number, {"kind": "mcp"}, key="a b")

    async def test_a_key_does_not_replace_access(self, bench: Bench) -> None:
        """A caller who lost access to the workflow gets no stored response."""
        number, rows = await new_flow(bench), bench.core.workflows.interfaces
        await rows.create(bench.other, number, {"kind": "mcp"}, key="k")
        await bench.core.workflows.patch(bench.me, number, access={"visibility": "private"})
        for body in ({"kind": "mcp"}, {"kind": "chatapp"}):
            with pytest.raises(NotFound):
                await rows.create(bench.other, number, body, key="k")


class TestAccess:
    """All use cases require manage."""

    async def test_interfaces_require_manage(self, bench: Bench) -> None:
        """Users are refused, also for reading; for strangers the workflow does not exist."""
        private = {"visibility": "private", "sharedWith": [{"email": "other@x.org"}]}
        number, rows = await new_flow(bench, access=private), bench.core.workflows.interfaces
        made = await rows.create(bench.me, number, kind="mcp")
        for who, error in ((bench.other, Forbidden), (bench.person("eve"), NotFound)):
            for refused in (
                rows.page(who, number),
                rows.get(who, number, made.id),
                rows.create(who, number, kind="mcp"),
                rows.patch(who, number, made.id, config={}),
                rows.delete(who, number, made.id),
                rows.clear(who, number),
            ):
                with pytest.raises(error):
                    await refused
        assert await rows.page(bench.me, number) == [made]

    async def test_a_deleted_workflow_keeps_its_rows(self, bench: Bench) -> None:
        """Managers still read them, and every write is 409."""
        number, rows = await new_flow(bench), bench.core.workflows.interfaces
        made = await rows.create(bench.me, number, kind="mcp")
        await bench.core.workflows.delete(bench.me, number)
        for refused in (
            rows.create(bench.me, number, kind="mcp"),
            rows.patch(bench.me, number, made.id, config={}),
            rows.delete(bench.me, number, made.id),
            rows.clear(bench.me, number),
        ):
            with pytest.raises(Conflict) as error:
                await refused
            assert error.value.info["reason"] == "deleted"
        assert await rows.page(bench.me, number) == [made]
