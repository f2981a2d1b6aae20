"""The bodies of start and resume: what they may say, and what a run carries along of it.

Nothing is accepted that has no effect (interface, Resume a run). `message`, `userContext`, `origin`, `debug` and
`experimentalFeatures` are carried verbatim: expressions read them as `run.message` and so on, and those of a resume
take the place of those before. `sessionId` and `fileThreadId` choose the thread of a new execution, `version` its
variation; a resumed one stays in its thread and on its variation whatever they say. `config` and `attachments` are
not offered by this release: refused, unless all in them is empty or false.
"""

from collections.abc import Mapping

from wfcore.domain.access import Principal
from wfcore.domain.codec import check, fingerprint
from wfcore.domain.errors import JSON, Issue, refuse
from wfcore.domain.shapes import CreateRun, ResumeRun
from wfcore.runtime.wire import key_issues

CARRIED = ("message", "userContext", "origin", "debug", "experimentalFeatures")
NOT_OFFERED = ("config", "attachments")
ANSWERS = ("decision", "decisions", "interruptId", "data")


def check_start(data: Mapping[str, JSON], key: str | None) -> None:
    """Refuse a body that cannot start a run."""
    unasked = [Issue(name, "nothing waits for an answer at a start", "unsupported") for name in ANSWERS if name in data]
    refuse([*key_issues(key), *check(CreateRun, data), *_not_offered(data), *unasked, *_target_issues(data)])


def check_resume(data: Mapping[str, JSON], key: str | None) -> None:
    """Refuse a body that cannot resume a run."""
    refuse([*key_issues(key), *check(ResumeRun, data), *_not_offered(data), *_decision_issues(data)])


def carried(data: Mapping[str, JSON]) -> dict[str, JSON]:
    """What expressions read of the body, as fields of `run`."""
    return {name: data[name] for name in CARRIED if name in data}


def used_for(me: Principal, what: str, data: Mapping[str, JSON]) -> str:
    """The fingerprint of caller, target and body: what a run id stands for. The id itself is no part of it."""
    return fingerprint([me.user_id, what, {name: value for name, value in data.items() if name != "runId"}])


def _not_offered(data: Mapping[str, JSON]) -> list[Issue]:
    return [
        Issue(name, f"`{name}` is not offered by this release", "unsupported")
        for name in NOT_OFFERED
        if isinstance(data.get(name), dict) and any(data[name].values())
    ]


def _target_issues(data: Mapping[str, JSON]) -> list[Issue]:
    if "skillId" in data or data.get("assistant"):
        field = "skillId" if "skillId" in data else "assistant"
        return [Issue(field, "runs of skills and of the assistant are not offered by this release", "unsupported")]
    return [Issue(name, "is required", "required") for name in ("workflowId", "input") if name not in data]


def _decision_issues(data: Mapping[str, JSON]) -> list[Issue]:
    single = [name for name in ("decision", "interruptId", "data") if name in data]
    if "decisions" in data:
        return [Issue(name, f"`{name}` stands beside `decisions`", "exclusive") for name in single]
    if single and "decision" not in data:
        return [Issue("decision", f"is required with `{single[0]}`", "required_if")]
    return []
