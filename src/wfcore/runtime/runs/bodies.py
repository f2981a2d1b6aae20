"""The bodies of runs, resumes and actions: what they may say, and what a run carries along of it.

Nothing is accepted that has no effect (interface, Resume a run). `message`, `userContext`, `origin`, `debug`,
`experimentalFeatures`, and `timezone` of an action, are carried verbatim: expressions read them as `run.message` and so
on, and those of a resume take the place of those before. `config` is carried as far as it narrows (`domain.narrowing`).
`sessionId` and `fileThreadId` choose the thread of a new execution, `version` its variation; a resumed one stays in its
thread and on its variation whatever they say. `attachments` are kept and carried as `run.attachments`, by key
(`domain.attachments`).
"""

from collections.abc import Mapping

from wfcore.api.runs import AttachmentsDto, Chat, CreateRun, ResumeRun, RunAction
from wfcore.domain.agents.attachments import AttachmentLimits, attachment_issues
from wfcore.domain.expressions.templates import template_issues
from wfcore.domain.json.codec import check, fingerprint
from wfcore.domain.kernel.errors import Issue, refuse
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.triggers.schedule import time_zones
from wfcore.runtime.common.requests import key_issues

CARRIED = ("message", "userContext", "origin", "debug", "experimentalFeatures", "timezone", "streamProtocolVersion")
TARGETS = ("workflowId", "skillId", "assistant")
ANSWERS = ("decision", "decisions", "interruptId", "data")


def check_start(data: Mapping[str, JSON], key: str | None, limits: AttachmentLimits) -> None:
    """Refuse a body that cannot start a run."""
    unasked = [Issue(name, "nothing waits for an answer at a start", "unsupported") for name in ANSWERS if name in data]
    faults = [*key_issues(key), *check(CreateRun, data), *_attached(data, limits)]
    refuse([*faults, *unasked, *_target_issues(data)])


def check_chat(data: Mapping[str, JSON], key: str | None) -> None:
    """Refuse a body that tells an agent nothing."""
    refuse([*key_issues(key), *check(Chat, data)])


def check_resume(data: Mapping[str, JSON], key: str | None, limits: AttachmentLimits) -> None:
    """Refuse a body that cannot resume a run."""
    refuse([*key_issues(key), *check(ResumeRun, data), *_attached(data, limits), *_decision_issues(data)])


def check_action(me: Principal, data: Mapping[str, JSON], key: str | None) -> None:
    """Refuse a body that is no action of the caller's organization."""
    issues = [*key_issues(key), *check(RunAction, data)]
    refuse(issues or [*_place_issues(me, data), *template_issues(data["action"].get("params") or {}, "action.params")])


def carried(data: Mapping[str, JSON]) -> dict[str, JSON]:
    """What expressions read of the body, as fields of `run`."""
    return {name: data[name] for name in CARRIED if name in data}


def carried_on(data: Mapping[str, JSON], before: Mapping[str, JSON]) -> dict[str, JSON]:
    """The same of a resume. What a stream may hold is for each turn's client to say."""
    kept = carried(data)
    return kept if "streamProtocolVersion" not in before else {"streamProtocolVersion": None, **kept}


def used_for(me: Principal, what: str, data: Mapping[str, JSON]) -> bytes:
    """The fingerprint of caller, target and body: what a run id stands for. The id itself is no part of it."""
    return mark_of([me.user_id, what, {name: value for name, value in data.items() if name != "runId"}])


def mark_of(value: JSON) -> bytes:
    """A fingerprint as runs keep it, cut to 128 bits: who found another value for it would only join a run of his."""
    return bytes.fromhex(fingerprint(value))[:16]


def _attached(data: Mapping[str, JSON], limits: AttachmentLimits) -> list[Issue]:
    """What is wrong with attachments beyond their shape, where they have it."""
    given = data.get("attachments")
    return attachment_issues(given, limits) if given and not check(AttachmentsDto, given) else []


def _target_issues(data: Mapping[str, JSON]) -> list[Issue]:
    """Exactly one target; a workflow takes an `input`, an agent has to be told something."""
    named = [name for name in TARGETS if name in data]
    if not named:
        return [Issue("workflowId", "one of `workflowId`, `skillId` and `assistant` is required", "required")]
    beside = [Issue(name, f"`{name}` stands beside `{named[0]}`", "exclusive") for name in named[1:]]
    if named[0] == "workflowId":
        return [*beside, *([] if "input" in data else [Issue("input", "is required", "required")])]
    if data.keys().isdisjoint(("message", "input")):
        return [*beside, Issue("message", "is required where there is no `input`", "required_if")]
    return beside


def _decision_issues(data: Mapping[str, JSON]) -> list[Issue]:
    single = [name for name in ("decision", "interruptId", "data") if name in data]
    if "decisions" in data:
        return [Issue(name, f"`{name}` stands beside `decisions`", "exclusive") for name in single]
    if single and "decision" not in data:
        return [Issue("decision", f"is required with `{single[0]}`", "required_if")]
    return []


def _place_issues(me: Principal, data: Mapping[str, JSON]) -> list[Issue]:
    """Whose action it is, and where its user is."""
    found = []
    if data.get("organizationId", me.org_uuid) != me.org_uuid:
        found.append(Issue("organizationId", "is not the organization of the credential", "organization"))
    if data.get("timezone", "UTC") not in time_zones():
        found.append(Issue("timezone", f"`{data['timezone'][:80]}` is no IANA time zone", "timezone"))
    return found
