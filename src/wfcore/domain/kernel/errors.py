"""The errors that wfcore raises.

    WfcoreError
    ├── Malformed        400 BAD_REQUEST    the request does not have the required shape
    ├── Unauthenticated  401 UNAUTHORIZED   the credential is missing, wrong or expired
    ├── Forbidden        403 FORBIDDEN      the caller may see it, but may not do this
    ├── NotFound         404 NOT_FOUND      it does not exist, or the caller may not see it: no difference shows
    ├── Conflict         409 CONFLICT       the state forbids it; `info` names the state
    ├── TooLarge         413 BAD_REQUEST    the body has more bytes than the operator allows
    ├── Invalid          422 VALIDATION     the request is well formed, but a value breaks a rule
    ├── RateLimited      429 RATE_LIMITED   the caller sent too many requests
    └── Unavailable      503 INTERNAL_ERROR a required service does not respond

`code` and `status` are the enums of the error envelope (interface, Errors); `http` is the HTTP status for a server.
Messages are lower case without a full stop and show the user's value in backticks. They never carry a secret.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar, Literal

import attrs

from wfcore.domain.kernel.json_type import JSON

MALFORMED_RULES = frozenset({"json", "type", "required", "query", "header"})
"""An issue with one of these rules means a malformed request (400), with any other rule an invalid one (422)."""


_WITH_ISSUES = (400, 422)

Severity = Literal["error", "warning"]
"""Of an issue: an error prevents a deployment, a warning is only shown."""


@attrs.frozen
class Issue:
    """One finding of a check. `path` is the wire path, such as `workflowStructure.nodes[3].type`; "" is the root.

    `counter_example` are the ids of nodes on a path of the graph that shows it, if there is one.
    """

    path: str
    message: str
    rule: str
    severity: Severity = "error"
    counter_example: tuple[str, ...] = ()

    def to_wire(self) -> dict[str, JSON]:
        wire: dict[str, JSON] = {"path": self.path, "message": self.message, "rule": self.rule}
        return {**wire, "counterExample": list(self.counter_example)} if self.counter_example else wire


class WfcoreError(Exception):
    """The base class. `info` is the free object of the error envelope. That of a 400 and of a 422 has `errors`: one
    about the whole request, unless issues of its values are given.
    """

    code: ClassVar[str] = "INTERNAL_ERROR"
    status: ClassVar[str] = "INTERNAL"
    http: ClassVar[int] = 500

    def __init__(self, message: str, info: Mapping[str, JSON] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.info: dict[str, JSON] = dict(info or {})
        if self.http in _WITH_ISSUES:
            self.info.setdefault("errors", [Issue("", message, "request").to_wire()])

    def to_wire(self, request_id: str) -> dict[str, JSON]:
        """The value of `error` in the error envelope."""
        body: dict[str, JSON] = {
            "code": self.code,
            "status": self.status,
            "message": self.message,
            "requestId": request_id,
        }
        if self.info:
            body["info"] = self.info
        return body


class Malformed(WfcoreError):
    code, status, http = "BAD_REQUEST", "INVALID_ARGUMENT", 400


class Unauthenticated(WfcoreError):
    """`challenge` is the authentication scheme of `WWW-Authenticate` (RFC 9110, 11.6.1); None is a bearer token."""

    code, status, http = "UNAUTHORIZED", "UNAUTHENTICATED", 401
    challenge: ClassVar[str | None] = None


class Forbidden(WfcoreError):
    code, status, http = "FORBIDDEN", "PERMISSION_DENIED", 403


class NotFound(WfcoreError):
    """What does not exist and what the caller may not see get the same message: the two must look alike."""

    code, status, http = "NOT_FOUND", "NOT_FOUND", 404

    def __init__(self, message: str = "not found", info: Mapping[str, JSON] | None = None) -> None:
        super().__init__(message, info)


def unknown_organization(org: str) -> NotFound:
    """The error for an organization that does not exist. Only a caller who names it itself gets this message."""
    return NotFound(f"unknown organization `{org}`")


class Conflict(WfcoreError):
    code, status, http = "CONFLICT", "ALREADY_EXISTS", 409


class TooLarge(WfcoreError):
    code, status, http = "BAD_REQUEST", "INVALID_ARGUMENT", 413


class Invalid(WfcoreError):
    code, status, http = "VALIDATION", "INVALID_ARGUMENT", 422


class RateLimited(WfcoreError):
    code, status, http = "RATE_LIMITED", "RESOURCE_EXHAUSTED", 429


class Unavailable(WfcoreError):
    """`is_temporary`: whether the same request can succeed later, although nobody changes the installation."""

    code, status, http = "INTERNAL_ERROR", "INTERNAL", 503
    is_temporary: ClassVar[bool] = True


def closed() -> Unavailable:
    """The error for a core, or a store of it, after its end."""
    return Unavailable("wfcore is closed: a core can be used only inside its `with` block")


def usable(keys: Iterable[str]) -> str:
    """The end of a message about an unknown key: what can be used instead, unless there is nothing."""
    names = ", ".join(f"`{key}`" for key in keys)
    return f": use {names}" if names else ""


def refuse(issues: Iterable[Issue], *, as_invalid: bool = False) -> None:
    """Raise one error that lists every error among `issues`; warnings alone raise nothing.

    Raises Malformed (400) if any rule is one of `MALFORMED_RULES`, else Invalid (422). With `as_invalid` it always
    raises Invalid: the request was well formed, and something that it refers to breaks a rule.
    """
    found = [issue for issue in issues if issue.severity == "error"]
    if not found:
        return
    first = found[0]
    where = f"`{first.path}`: " if first.path else ""
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    malformed = not as_invalid and any(issue.rule in MALFORMED_RULES for issue in found)
    kind = Malformed if malformed else Invalid
    info: dict[str, JSON] = {"errors": [issue.to_wire() for issue in found]}
    shown = next((issue.counter_example for issue in found if issue.counter_example), ())
    raise kind(f"{where}{first.message}{more}", {**info, "path": list(shown)} if shown else info)


def join_path(parent: str, child: str) -> str:
    """Join wire paths: `a` and `b` give `a.b`, `a` and `[0]` give `a[0]`."""
    if not parent or not child:
        return parent or child
    return parent + child if child.startswith("[") else f"{parent}.{child}"
