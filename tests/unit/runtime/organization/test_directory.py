"""Organizations, members, groups, tokens, authentication by token, page tokens (interface, Authentication)."""

import asyncio

import attrs
import pytest
from bench import Bench, act, one, paths

from wfcore.domain.kernel.errors import Conflict, Invalid, Malformed, NotFound, Unauthenticated
from wfcore.domain.resources.access import TOKEN_SCOPES
from wfcore.runtime.common.requests import PageTokens

pytestmark = pytest.mark.anyio


NEW = "0192f0c0-1111-7000-8000-00000000000a"


class TestEnsure:
    """Organizations and groups of the embedding program, which it creates at each start."""

    async def test_an_organization_is_created_once(self, bench: Bench) -> None:
        """Also by calls at the same time; a later name replaces the first."""
        core = bench.core.directory
        made = await asyncio.gather(*(core.ensure_organization("Acme", id=NEW) for _ in range(5)))
        assert {one.uuid for one in made} == {NEW}
        renamed = await core.ensure_organization("Acme Ltd", id=NEW)
        assert renamed == attrs.evolve(made[0], name="Acme Ltd")
        assert await bench.core.ports.storage.organization(NEW) == renamed
        assert await core.ensure_organization("Acme Ltd", id=NEW) == renamed
        boss = bench.core.principal(NEW, "boss", role="owner")
        assert [row.row.details for row in await bench.core.audit.page(boss, action="organization.update")] == [
            {"name": "Acme Ltd"}
        ]

    async def test_a_group_is_created_once(self, bench: Bench) -> None:
        """Also by calls at the same time; a later name replaces the first; each change is audited once."""
        core = bench.core.directory
        made = await asyncio.gather(*(core.ensure_group(bench.org, "Sales", id=NEW) for _ in range(5)))
        assert {(one.id, one.name) for one in made} == {(NEW, "Sales")}
        for _ in range(2):
            assert (await core.ensure_group(bench.org, "Selling", id=NEW)).name == "Selling"
        boss = bench.person("boss", role="owner")
        assert [(one.id, one.group.name) for one in await bench.core.groups.page(boss)] == [(NEW, "Selling")]
        actions = [row.row.action for row in await bench.core.audit.page(boss)]
        assert actions == ["group.update", "group.create"]

    async def test_ids_that_are_refused(self, bench: Bench) -> None:
        """A text that is not a UUID, the organization's own UUID for a group, and an unknown organization."""
        core = bench.core.directory
        for call in (core.ensure_organization("x", id="acme"), core.ensure_group(bench.org, "x", id="sales"),
                     core.ensure_group(bench.org, "x", id=bench.org)):  # fmt: skip
            with pytest.raises(Invalid) as error:
                await call
            assert [path for path, _ in paths(error)] == ["id"]
        with pytest.raises(NotFound):
            await core.ensure_group(NEW, "x", id=NEW[:-1] + "b")

    async def test_an_unknown_organization_is_named(self, bench: Bench) -> None:
        """By the calls of the operator, and by those of a principal of the embedding program."""
        core, me = bench.core, bench.core.principal(NEW, "u")
        calls = [
            core.directory.limit_runs(NEW, 1),
            core.directory.add_member(NEW, "u"),
            core.directory.create_group(NEW, "x"),
            core.directory.create_token(NEW, "u", scopes=[]),
            core.workflows.create(me, name="x", type="workflow"),
            core.workflows.get(me, 1),
            core.members.page(me),
        ]
        for call in calls:
            with pytest.raises(NotFound, match=f"^unknown organization `{NEW}`$"):
                await call


class TestLimits:
    """The limits of concurrent runs of an organization and of its workflows, which the operator sets."""

    async def test_the_limit_is_stored_and_audited(self, bench: Bench) -> None:
        for most in (3, 3, None):
            await bench.core.directory.limit_runs(bench.org, most)
            found = await bench.core.ports.storage.organization(bench.org)
            assert found
            assert found.max_concurrent_runs == most
        rows = await bench.core.audit.page(bench.person("boss", role="owner"), action="organization.update")
        assert [row.row.details for row in rows] == [{"maxConcurrentRuns": None}, {"maxConcurrentRuns": 3}]

    async def test_the_limit_of_a_workflow(self, bench: Bench) -> None:
        """It is stored and audited beside that of the organization."""
        number = await bench.deployed(one(act("echo")))
        await bench.core.directory.limit_runs(bench.org, 9)
        for most, limits in ((3, {number: 3}), (3, {number: 3}), (None, {})):
            await bench.core.directory.limit_runs(bench.org, most, workflow=number)
            assert await bench.core.directory.run_limits(bench.org) == limits
        rows = await bench.core.audit.page(bench.person("boss", role="owner"), action="workflow.update")
        changes = [(row.row.resource_id, row.row.details) for row in rows]
        assert changes == [(str(number), {"maxConcurrentRuns": None}), (str(number), {"maxConcurrentRuns": 3})]
        found = await bench.core.ports.storage.organization(bench.org)
        assert found
        assert found.max_concurrent_runs == 9

    async def test_limits_that_are_refused(self, bench: Bench) -> None:
        """A number below 1, and an unknown organization or workflow."""
        with pytest.raises(NotFound, match="unknown workflow `77`"):
            await bench.core.directory.limit_runs(bench.org, 1, workflow=77)
        with pytest.raises(Invalid) as error:
            await bench.core.directory.limit_runs(bench.org, 0)
        assert paths(error) == {("maxConcurrentRuns", "minimum")}
        with pytest.raises(NotFound):
            await bench.core.directory.limit_runs(NEW, 1)


class TestTokens:
    """Personal access tokens."""

    async def test_a_token_is_its_member(self, bench: Bench) -> None:
        """The principal is the current member with the token's scopes."""
        core = bench.core.directory
        team = (await core.create_group(bench.org, "team")).id
        await core.add_member(bench.org, "u1", "Ann@X.org", role="admin", groups=[team])
        token = await core.create_token(bench.org, "u1", scopes=["workflows:read"])
        me = await core.authenticate(token)
        assert (me.user_id, me.email, me.role, me.groups) == ("u1", "ann@x.org", "admin", {team})
        assert me.scopes == {"workflows:read"}
        await core.add_member(bench.org, "u1", groups=[])
        assert (await core.authenticate(token)).groups == frozenset()

    async def test_any_other_text_is_refused_alike(self, bench: Bench) -> None:
        """A wrong secret, prefix or organization, and any other text: the same error with the same message."""
        core = bench.core.directory
        await core.add_member(bench.org, "u1")
        token = await core.create_token(bench.org, "u1", scopes=TOKEN_SCOPES)
        svc, org, prefix, secret = token.split("_")
        ghost = "00000000-0000-4000-8000-00000000dead"
        flipped = secret[:-1] + ("a" if secret[-1] != "a" else "b")
        bad = ["", "svc", token + "x", f"{svc}_{org}_{prefix}_{flipped}", f"{svc}_{org}_zzzzzzzz_{secret}"]
        messages = set()
        for text in [*bad, f"{svc}_{ghost}_{prefix}_{secret}"]:
            with pytest.raises(Unauthenticated) as error:
                await core.authenticate(text)
            messages.add(error.value.message)
        assert len(messages) == 1

    @pytest.mark.parametrize(("seconds", "rule"), [(0, "minimum"), (3_162_240_001, "range")])
    async def test_a_lifetime_is_bounded(self, bench: Bench, seconds: int, rule: str) -> None:
        """As in a request: at least a second, at most a hundred years."""
        core = bench.core.directory
        await core.add_member(bench.org, "u1")
        with pytest.raises(Invalid) as refused:
            await core.create_token(bench.org, "u1", scopes=[], expires_in=seconds)
        assert [issue["rule"] for issue in refused.value.info["errors"]] == [rule]
        assert await core.create_token(bench.org, "u1", scopes=[], expires_in=3_162_240_000)

    async def test_tokens_end(self, bench: Bench) -> None:
        """A token ends at the second of its expiry, and when it is revoked."""
        core, storage = bench.core.directory, bench.core.ports.storage
        await core.add_member(bench.org, "u1")
        short = await core.create_token(bench.org, "u1", scopes=[], expires_in=10)
        revoked = await core.create_token(bench.org, "u1", scopes=[])
        async with storage.transaction(bench.org) as work:
            await work.directory.revoke_token(revoked.split("_")[2], bench.core.ports.now())
        with pytest.raises(Unauthenticated):
            await core.authenticate(revoked)
        bench.clock.advance(9.999)
        assert (await core.authenticate(short)).user_id == "u1"
        bench.clock.advance(0.001)
        with pytest.raises(Unauthenticated):
            await core.authenticate(short)

    async def test_invalid_tokens_cannot_be_created(self, bench: Bench) -> None:
        """An unknown scope, a lifetime shorter than a second, an unknown member."""
        core = bench.core.directory
        with pytest.raises(Invalid) as error:
            await core.create_token(bench.org, "u1", scopes=["all"], expires_in=0)
        assert paths(error) == {("scopes", "enum"), ("expiresInSeconds", "minimum")}
        with pytest.raises(NotFound):
            await core.create_token(bench.org, "nobody", scopes=[])


async def test_organizations_and_members(bench: Bench) -> None:
    """An id is unique; a member requires a user id, an ASCII address, a name of valid length, a role and existing
    groups.
    """
    core = bench.core.directory
    with pytest.raises(Conflict) as conflict:
        await core.create_organization("Again", id=bench.org)
    assert conflict.value.info == {"reason": "duplicate"}
    ghost = "00000000-0000-4000-8000-00000000dead"
    with pytest.raises(Invalid) as error:
        await core.add_member(bench.org, "", "\u212a@x.org", name="n" * 201, role="boss", groups=["team"])
    assert {path for path, _ in paths(error)} == {"userId", "email", "name", "role", "groups"}
    with pytest.raises(Invalid) as error:
        await core.add_member(bench.org, ".")
    assert paths(error) == {("userId", "pattern")}
    with pytest.raises(Invalid) as error:
        await core.add_member(bench.org, "u1", groups=[ghost])
    assert paths(error) == {("groups", "group")}


def test_page_tokens_are_bound() -> None:
    """A token returns its position for its own list; altered, or for another list, it is 400."""
    tokens = PageTokens(b"s" * 32)
    token = tokens.seal([7, "x"], "org", "runs", None)
    assert tokens.open(token, "org", "runs", None) == [7, "x"]
    for text, bound in (
        (token, ("other", "runs", None)),
        (token, ("org", "runs", "done")),
        (token[:-1], ("org", "runs", None)),
        (token + "=", ("org", "runs", None)),
        ("", ("org", "runs", None)),
        ("é", ("org", "runs", None)),
    ):
        with pytest.raises(Malformed):
            tokens.open(text, *bound)
    with pytest.raises(Malformed):
        PageTokens(b"t" * 32).open(token, "org", "runs", None)
    renewed = PageTokens(b"t" * 32, b"s" * 32)
    assert renewed.open(token, "org", "runs", None) == [7, "x"]
    assert renewed.seal([7], "org") == PageTokens(b"t" * 32).seal([7], "org")
