"""A member who has left traces everywhere."""

from typing import Any, Final

from bench import Bench, act, ask, one, private

from wfcore.domain.resources.access import Principal

USER: Final = "planted-user-7f3"
EMAIL: Final = "zebulon.quux@planted.example"
NAME: Final = "Zebulon Q\u00fc\u00fcx"
TEXT: Final = "a planted sentence about giraffes"
PLANTED: Final = (USER, EMAIL, NAME, "Zebulon", "giraffes", "planted")
SECRET: Final = b"s" * 32


async def planted(bench: Bench) -> tuple[Principal, dict[str, Any]]:
    """A member who has left traces everywhere; the names of what others have."""
    core, me = bench.core, await bench.joined("me", "owner")
    await core.directory.add_member(bench.org, USER, EMAIL, name=NAME, role="admin")
    zeb = core.principal(bench.org, USER, email=EMAIL, role="admin")
    await core.tokens.create(zeb, name=NAME, scopes=["workflows:read"])
    shared = await bench.deployed(one(ask()))
    echo = await bench.deployed(one(act("echo", value="{{ input.text }}")))
    given = {"text": TEXT, "who": {"name": NAME, EMAIL: [USER]}}
    own = await bench.ended(await core.runs.start(zeb, workflow=echo, input=given, key=f"{USER}-key"))
    parked = await bench.ended(await core.runs.start(zeb, workflow=shared, input=given))
    fork = await core.runs.fork(me, own.id, before="a")
    attached = {"documents": [{"fileName": f"{NAME}.txt", "parsedContent": TEXT}]}
    await bench.ended(await core.runs.start(zeb, workflow=echo, input=given, attachments=attached))
    waiting = await bench.ended(await core.runs.start(me, workflow=shared, input={"mine": "kept"}))
    decided = await core.runs.resume(zeb, waiting.id, decision="approve", data={"reason": TEXT, "amount": 5})
    await bench.ended(decided)
    about = await bench.ended(await core.runs.start(me, workflow=echo, input={"text": f"ask {NAME} <{EMAIL}>"}))
    skill = await core.skills.create(me, name="Helper")
    await core.skills.deploy(me, skill.id)
    chat = await bench.ended(await core.runs.chat(zeb, skill.id, message=TEXT, user_context={"name": NAME}))
    await core.memories.create(me, skill.id, memory=TEXT, user_id=USER)
    await core.memories.create(me, skill.id, memory=f"{NAME} likes tea")
    mine = await core.workflows.create(
        zeb, name=f"Of {NAME}", description=TEXT, access=private(EMAIL), structure=one(ask())
    )
    await core.workflows.deploy(zeb, mine.id)
    private_run = await core.runs.start(zeb, workflow=mine.id, input=given)
    assert [batch async for batch in core.runs.batches(private_run)]
    await core.delegations.create(zeb, to="me", until="2100-01-01T00:00:00Z", workflow_ids=[shared])
    await core.hooks.create(zeb, url="http://127.0.0.1:9/events", events=["run.finished"], key=f"{USER}-hook")
    named = {"own": own.id, "parked": parked.id, "fork": fork.id, "waiting": waiting.id, "decided": decided.id,
             "about": about.id, "chat": chat.id, "mine": mine.id, "skill": skill.id}  # fmt: skip
    return zeb, named
