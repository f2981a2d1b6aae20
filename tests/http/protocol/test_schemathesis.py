"""Every operation of the OpenAPI document under schemathesis, with all its checks (interface, Versioning 1)."""

from collections.abc import Mapping
from typing import Any

import pytest
import schemathesis
from clients import APPROVAL, chain, count
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.config import SchemathesisConfig
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.python._constants.orchestrator import make_constants_value_source
from slices import slice_of
from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send

import wfcore.bootstrap
from wfcore.adapters.http import app
from wfcore.core import Core
from wfcore.domain.resources.access import TOKEN_SCOPES, Principal
from wfcore.testing.contracts.run_records import human, recorded

HEADERS = {"Authorization": "Bearer ada", "Accept": "application/json"}
"""Headers of an owner with every scope. Responses are JSON here; streams have their own tests."""

GRAPHS = r"^(workflows|agents|skills)\.(create|patch|supervise)$|^simulations\.run$|^agents\.simulate$"
BODIES = rf"{GRAPHS}|^members\.(create|patch)$"
"""Graphs, schedules, access and links have rules beyond a schema: 422. A string cannot contain NUL: 400."""
STATES = r"\.(rollback|toggle)$|^runs\.fork$"
"""A schema cannot know which variations, schedules and nodes exist: 422."""
PROPOSALS = r"^(workflows|agents)\.propose$"
"""The model decides, and the rules have a grammar: 422."""
HOOKS = r"^(hooks|policies)\.(create|patch)$"
"""A schema cannot know which workflows and groups exist; the rules of `url`, repeated `events` and of single keys are
beyond it: 422."""
PEOPLE = r"^delegations\.(create|patch)$|^members\.erase$"
"""A schema cannot know the members and the time; repeated workflows are beyond it: 422."""
RUNS = (
    r"runs\.(start|startUnversioned|resume|retryAll|list)|(workflows|agents)\.moveRuns|chat\..*|actions\.run|agUi\..*"
)
KINDS = r"\.(transferOwnership|createInterface|patchInterface)$|^connections\.(create|patch)$"
CHOICES = rf"{KINDS}|^({RUNS})$|^expressions\.evaluate$"
"""Combinations of fields: one of several is required (400), only one is allowed, or `kind` requires some (422)."""
CONTEXTS = r"^contexts\."
"""The skill limits what a `config` can request: 422."""
UPLOADS = r"^uploads\.create$"
"""The content of the bytes decides: 422."""
MASKS = r"^memories\.patch$"
"""An `updateMask` must name fields of its body: 400."""
PERIODS = r"^usage\.report$"
"""The two times must be in order, and not too far apart: 400."""
VALUES = r"^runs\.graphValue$"
"""The node is checked after the access to the run: 400."""
DIFFERENCES = r"^(workflows|agents|skills)\.diff$"
"""Both sides must be variations: 422."""
RESULTS = r"^evaluations\.results$"
"""The ids in one text must be those of variations: 422; there can be too many of them: 400."""
VALIDATE = r"^(workflows|agents|skills)\.validate$"
"""Validation reports the issues of a body in a 200."""

ALIAS = r"^/api/v1/agents/|^/agent/runs"
"""The same handlers and shapes at their earlier paths: the examples are enough."""

ACCEPTED = ["2xx", "403", "404", "409"]


def also(operations: str, *statuses: str) -> dict[str, Any]:
    """These operations can return these statuses for bodies that their schema allows."""
    checks = {"positive_data_acceptance": {"expected-statuses": [*ACCEPTED, *statuses]}}
    return {"include-operation-id-regex": operations, "checks": checks}


LINKS = r"^connections\.(connect|callback)$"
"""What their query carries was sealed by the server."""

CONFIG = {
    "headers": HEADERS,
    "generation": {
        "deterministic": True,
        "database": "none",
        "with-security-parameters": False,
        "allow-extra-parameters": False,
    },
    "phases": {"fuzzing": {"enabled": False}},  # tests of hostile requests draw bodies at random
    "checks": {"positive_data_acceptance": {"expected-statuses": ACCEPTED}},
    "operations": [
        {"include-path-regex": ALIAS, "phases": {"coverage": {"enabled": False}}},
        also(BODIES, "400", "422"),
        also(STATES, "422"),
        also(PROPOSALS, "422"),
        also(HOOKS, "422"),
        also(PEOPLE, "422"),
        also(CHOICES, "400", "422"),
        also(MASKS, "400"),
        also(CONTEXTS, "422"),
        also(UPLOADS, "422"),
        also(PERIODS, "400"),
        also(VALUES, "400"),
        also(DIFFERENCES, "422"),
        also(RESULTS, "400", "422"),
        also(LINKS, "400"),
        {
            "include-operation-id-regex": VALIDATE,
            "checks": {
                "negative_data_rejection": {"enabled": False},
                "positive_data_acceptance": {"expected-statuses": [*ACCEPTED, "400", "422"]},
            },
        },
    ],
}


KEY = {"apiKey": "sk-4711"}
CASE = {"id": "a", "input": {"message": "hello"}, "checks": [{"kind": "contains", "value": "hello"}]}


class Product:
    """The application with its own store for each operation, which has the resources of the examples."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self.app(scope, receive, send)
            return
        await receive()
        async with wfcore.bootstrap.open("sqlite://", tools=[count]) as core:
            self.me, self.names = await filled(core)
            self.app = app(core, secret=b"s" * 32, authenticate=self.authenticate)
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def authenticate(self, connection: HTTPConnection) -> Principal | None:
        return self.me if connection.headers.getlist("Authorization") == [HEADERS["Authorization"]] else None


async def filled(core: Core) -> tuple[Principal, Mapping[str, Any]]:
    """The caller, and the values of path parameters."""
    org = (await core.directory.create_organization("Refund office")).uuid
    for name in ("ada", "bob", "grace"):
        await core.directory.add_member(org, name, f"{name}@example.org", role="owner")
    me = await core.directory.authenticate(await core.directory.create_token(org, "ada", scopes=TOKEN_SCOPES))
    await core.workflows.create(me, name="Refunds", structure=chain(APPROVAL))
    await core.workflows.deploy(me, 1)
    await core.skills.create(me, name="Refunds", evaluations=[CASE])
    await core.runs.start(me, workflow=1, input={}, key="order-4711")
    messages = [human("Where is order 4711?")]
    await recorded(core.ports.journal, messages, org=org, user="ada", thread="document-4711", kind="skill", resource=1)
    return me, {  # what the examples cannot know, since the server numbers it
        "interfaceId": (await core.workflows.interfaces.create(me, 1, kind="mcp")).id,
        "memoryId": (await core.memories.create(me, 1, memory="m")).id,
        "groupId": (await core.groups.create(me, name="Clerks")).id,
        "policyId": (await core.policies.create(me, name="P", when={"agent": True}, require={"timeout": True})).id,
        "itemId": (await core.context_items.create(me, title="Rules", content="30 days")).id,
        "connectionId": (await core.connections.create(me, name="P", provider="p", kind="api_key", config=KEY)).id,
        "delegationId": (await core.delegations.create(me, to="bob")).id,
        "tokenId": (await core.tokens.create(me, name="ci", scopes=["skills:read"])).id,
    }


product = Product()

SHARES = 6
"""Tests of so many operations each that several processes can have them; a busy machine is slow with their threads."""


@pytest.mark.parametrize("share", slice_of(range(SHARES), 2))
def test_responses_match_the_document(share: int, subtests: pytest.Subtests) -> None:
    """No 5xx and no undocumented response; bodies are accepted exactly when their schema allows them.

    The cases are made here: `@api.parametrize()` would make those of all operations in every process of the suite.
    """
    api = schemathesis.openapi.from_asgi("/openapi.json", product, config=SchemathesisConfig.from_dict(CONFIG))
    feedback = FeedbackSources(constants_value_source=make_constants_value_source(api))
    operations = [found.ok() for found in api.get_all_operations()]
    for operation in operations[share::SHARES]:
        test = build_operation_test(
            config=api.config,
            operation=operation,
            test_func=assert_documented,
            given_kwargs={},
            feedback=feedback,
            explicit_settings=settings(suppress_health_check=list(HealthCheck)),
        )
        with subtests.test(operation.label):
            test()


def assert_documented(case: Case) -> None:
    if case.meta and case.meta.generation.mode.is_positive:
        case.query.pop("pageToken", None)  # only the server makes them
        for name in case.path_parameters.keys() & product.names.keys():
            case.path_parameters[name] = product.names[name]
    case.call_and_validate(headers=HEADERS)
