"""The bodies of runs, resumes and actions: their validation, and the fields that a run keeps.

A field without effect is refused (interface, Resume a run). `message`, `userContext`, `origin`,
`experimentalFeatures`, and `timezone` of an action, are kept verbatim: expressions read them as `run.message` and so
on, and those of a resume replace the earlier ones. `config` is kept as far as it narrows (`domain.agents.narrowing`).
`sessionId` and `fileThreadId` choose the thread of a new execution, `version` its variation; a resume changes neither.
`attachments` are stored, and kept as `run.attachments`, by key (`domain.agents.attachments`).
"""

from collections.abc import Mapping
from functools import partial

from msgspec import Struct

from wfcore.api.runs import Action, AttachmentsDto, Chat, CreateRun, ResumeRun, RunAction
from wfcore.domain.agents.attachments import AttachmentLimits, attachment_issues
from wfcore.domain.agents.end_users import end_user_issues
from wfcore.domain.expressions.templates import template_issues
from wfcore.domain.json.codec import check, fingerprint
from wfcore.domain.json.values import UNSET, structure
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.json_readers import as_object
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.run.state import StarterKind
from wfcore.domain.triggers.schedule import zone_issues
from wfcore.runtime.common.bodies import Tree, checked, parsed

Sent = CreateRun | ResumeRun | RunAction

NAMES = {"workflow": "workflowId", "skill": "skillId"}
"""Short keyword arguments of the library, in addition to the wire names in snake case."""

CARRIED = ("message", "userContext", "origin", "experimentalFeatures", "timezone", "streamProtocolVersion")
CLIENT_FIELDS = ("streamProtocolVersion", "debug")
TARGETS = ("workflowId", "skillId", "assistant")
UNCOMPARED = ("runId", "organizationId")
DECISION_FIELDS = ("decision", "decisions", "interruptId", "data")


class RequestedRun(Struct, frozen=True, gc=False):
    """The run of a request. `key` is the prefix of its effects' keys ("": the id)."""

    id: str
    fingerprint: bytes
    thread_id: str
    key: str
    started_by: StarterKind
    origin: str


def start_body(
    body: CreateRun | Tree | None, fields: Mapping[str, object], key: str | None, limits: AttachmentLimits
) -> tuple[CreateRun, Tree]:
    """The body of a start, and its object. Raises Malformed or Invalid with all faults."""
    rules = (partial(_attachment_issues, limits), _start_issues, _target_issues, _user_issues)
    tree = checked(CreateRun, body, fields, *rules, names=NAMES, key=key)
    return structure(CreateRun, tree), tree


def chat_body(body: Chat | Tree | None, fields: Mapping[str, object], key: str | None) -> Chat:
    """The body of a chat message. Raises Malformed or Invalid with all faults."""
    return parsed(Chat, body, fields, _user_issues, key=key)


def resume_body(
    body: ResumeRun | Tree | None, fields: Mapping[str, object], key: str | None, limits: AttachmentLimits
) -> tuple[ResumeRun, Tree]:
    """The body of a resume, and its object. Raises Malformed or Invalid with all faults."""
    rules = (partial(_attachment_issues, limits), _decision_issues, _user_issues)
    tree = checked(ResumeRun, body, fields, *rules, key=key)
    return structure(ResumeRun, tree), tree


def action_body(
    me: Principal, body: RunAction | Tree | None, fields: Mapping[str, object], key: str | None
) -> RunAction:
    """The body of a single action of the caller's organization. Raises Malformed or Invalid with all faults."""
    return parsed(RunAction, body, fields, partial(_place_issues, me), _params_issues, key=key)


def run_fields(tree: Tree) -> dict[str, JSON]:
    """The fields of a body that expressions read as fields of `run`."""
    return {name: tree[name] for name in CARRIED if name in tree}


def of_the_client(before: Mapping[str, JSON]) -> dict[str, JSON]:
    """Resets the `run` fields that are about the client of a turn: each turn has its own."""
    return {name: None for name in CLIENT_FIELDS if name in before}


def requests_debug(body: CreateRun | ResumeRun) -> bool:
    """Whether the body requests debug events."""
    return body.debug is True or (body.config is not UNSET and body.config.debug is True)


def request_fingerprint(me: Principal, what: str, tree: Tree) -> bytes:
    """The fingerprint of caller, target and body, without the run id: equal requests with one id join the same run.

    Nor has it the organization, which is that of the credential.
    """
    return short_fingerprint([me.user_id, what, {name: tree[name] for name in tree if name not in UNCOMPARED}])


def short_fingerprint(value: JSON) -> bytes:
    """A fingerprint cut to 64 bits. A collision would only let a caller join a run of its own."""
    return bytes.fromhex(fingerprint(value))[:8]


def _user_issues(data: Tree) -> list[Issue]:
    return end_user_issues(data.get("userContext"))


def _start_issues(data: Tree) -> list[Issue]:
    return [
        Issue(name, "a run cannot start with a decision", "unsupported") for name in DECISION_FIELDS if name in data
    ]


def _params_issues(data: Tree) -> list[Issue]:
    """The errors of the parameters of an action of valid shape."""
    if "action" not in data or check(Action, data["action"]):
        return []
    return template_issues(as_object(data["action"]).get("params") or {}, "action.params")


def _attachment_issues(limits: AttachmentLimits, data: Tree) -> list[Issue]:
    """The errors of attachments of valid shape."""
    given = data.get("attachments")
    return attachment_issues(as_object(given), limits) if given and not check(AttachmentsDto, given) else []


def _target_issues(data: Tree) -> list[Issue]:
    """Exactly one target is required; an agent also requires `message` or `input`. Without `input`, a workflow gets
    `{}`.
    """
    named = [name for name in TARGETS if name in data]
    if not named:
        return [Issue("workflowId", "one of `workflowId`, `skillId` and `assistant` is required", "required")]
    extra = [Issue(name, f"cannot be combined with `{named[0]}`", "exclusive") for name in named[1:]]
    if named[0] != "workflowId" and data.keys().isdisjoint(("message", "input")):
        return [*extra, Issue("message", "is required without `input`", "required_if")]
    return extra


def _decision_issues(data: Tree) -> list[Issue]:
    single = [name for name in ("decision", "interruptId", "data") if name in data]
    if "decisions" in data:
        return [Issue(name, "cannot be combined with `decisions`", "exclusive") for name in single]
    if single and "decision" not in data:
        return [Issue("decision", f"is required with `{single[0]}`", "required_if")]
    return []


def _place_issues(me: Principal, data: Tree) -> list[Issue]:
    """The organization and the time zone of an action."""
    found = []
    organization = data.get("organizationId", me.org_uuid)
    if isinstance(organization, str) and organization != me.org_uuid:
        found.append(Issue("organizationId", "is not the organization of the credential", "organization"))
    zone = data.get("timezone", "UTC")
    if isinstance(zone, str):
        found += zone_issues("timezone", zone)
    return found
