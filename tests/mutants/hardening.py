"""The mends of what storms, wrong clocks, attackers and contract tests found: each fault undoes one of them."""

from typing import Final

from planted import ADAPTERS, CASES, DOMAIN, RULES, RUNTIME, planted

# ruff: noqa: E501  (a text of the source is one line here, as long as it is there)

HTTP: Final = "tests/http"

OUTAGES: Final = [
    *planted(
        f"{RUNTIME}/execution/performer.py",
        f"{CASES}/execution/test_performer.py",
        ("a restart of the database fails an effect", "except StoreUnavailable as error:", "except ZeroDivisionError as error:"),
        ("the words of the database stand in an event", 'failed(effect, at, INTERNAL, "defect"', 'failed(effect, at, str(error.__cause__), "defect"'),
    ),
    *planted(
        "src/wfcore/ports/faults.py",
        "tests/unit/ports/test_faults.py",
        ("an outage of the store is the effect's failure", "raise StoreUnavailable from error", "raise InternalFault from error"),
    ),
    *planted(
        f"{RUNTIME}/execution/appender.py",
        f"{CASES}/execution {CASES}/test_driving.py",
        ("an outcome is lost in an outage", "if append.new_run or not append.entries:", "if append.entries:"),
    ),
]  # fmt: skip

SECURITY: Final = [
    *planted(
        f"{RUNTIME}/execution/children.py",
        f"{CASES}/test_children.py",
        ("an expression starts what its caller cannot use", "users = {user_id, execution.user_id} if chosen else {user_id}", "users = {user_id}"),
    ),
    *planted(
        f"{RUNTIME}/resources/deployment.py",
        f"{CASES}/test_children.py",
        ("an approval waits for a group that does not exist", "        if group not in known\n", "        if not known\n"),
    ),
    *planted(
        f"{ADAPTERS}/http/core/request_parsing.py",
        f"{HTTP}/security/test_cross_site_writes.py {HTTP}/security/test_hostile_requests.py",
        ("a cookie session writes without a media type", 'if "Content-Type" not in headers and "Authorization" not in headers:', 'if "Content-Type" not in headers and "Cookie" not in headers:'),
        ("an invalid header has the rule of a query parameter", '[Issue(name, message, "header")]', '[Issue(name, message, "query")]'),
    ),
    *planted(
        f"{ADAPTERS}/http/connections.py",
        f"{HTTP}/security/test_raw_connections.py",
        ("two lengths of one body", "if b\"transfer-encoding\" in names and (b\"content-length\" in names or", "if b\"transfer-encoding\" in names and ("),
        ("a line ends without CR", r're.compile(rb"(?<!\r)\n|\r\n[ \t]")', r're.compile(rb"\r\n[ \t]")'),
        ("a header continues the one before", r're.compile(rb"(?<!\r)\n|\r\n[ \t]")', r're.compile(rb"(?<!\r)\n")'),
        ("half a head waits forever", "        else:\n            self._deadline = self.loop.call_later(self.limits.header_seconds", "        else:\n            self._deadline = self.loop.call_later(86400"),
        ("any number of connections", "if len(self.connections) > self.limits.max_connections:", "if not self.connections:"),
    ),
    *planted(
        f"{DOMAIN}/json/codec.py",
        f"{HTTP}/security/test_names.py {RULES}/json/test_codec.py",
        ("a name that nobody can see", "[^{_CONTROL}{_INVISIBLE}][^{_CONTROL}]*)?$", "[^{_CONTROL}][^{_CONTROL}]*)?$"),
    ),
    *planted(
        f"{ADAPTERS}/http/core/event_response.py",
        f"{HTTP}/runs/test_streams.py",
        ("a stalled reader is kept", "if now - self._sending_since >= self._stall_seconds:", "if now < self._sending_since:"),
    ),
]  # fmt: skip

CONTRACT: Final = [
    *planted(
        f"{RUNTIME}/resources/resources.py",
        f"{CASES}/resources/test_resources.py {HTTP}/resources/test_conditional_requests.py",
        ("faults of the sharing hide the others", "rules = self._rule_issues, lambda _: found", "refuse(found)\n        rules = self._rule_issues, lambda _: found"),
        ("a create does not return the draft", "return ResourceView(self.resource, self.access, draft, with_variation=True)", "return ResourceView(self.resource, self.access, None, with_variation=True)"),
    ),
    *planted(
        f"{RUNTIME}/organization/directory.py",
        f"{HTTP}/resources/test_organization_routes.py {CASES}/organization",
        ("a member's e-mail hides other faults", "refuse([*issues, *email_issues(email)])", "refuse(email_issues(email))\n        refuse(issues)"),
    ),
    *planted(
        f"{RUNTIME}/common/preconditions.py",
        f"{HTTP}/protocol/test_preconditions.py {HTTP}/resources/test_conditional_requests.py",
        ("`If-Match` is ignored", 'if if_match is None or if_match.strip() == "*":', 'if if_match is None or "*" not in if_match:'),
    ),
    *planted(
        f"{ADAPTERS}/http/core/responses.py",
        f"{HTTP}/resources/test_conditional_requests.py",
        ("`If-None-Match` is ignored", 'etag is None or not {"*", etag} & known:', "etag is None or known:"),
    ),
    *planted(
        f"{ADAPTERS}/http/core/request_parsing.py",
        f"{HTTP}/resources/test_resource_routes.py",
        ("an unknown query parameter is ignored", "for name in counts if name not in known\n", "for name in counts if name in ()\n"),
    ),
    *planted(
        f"{ADAPTERS}/http/openapi/document.py",
        f"{HTTP}/protocol/test_openapi_document.py",
        ("a deprecated parameter looks current", 'if query.deprecated else {}', "if not query.name else {}"),
        ("a refused stream has JSON alone", '{**as_object(refused["content"]), **_frames(route, RefusedEvent)}', 'as_object(refused["content"])'),
    ),
    *planted(
        f"{ADAPTERS}/http/routes/resources.py",
        f"{HTTP}/resources/test_resource_routes.py {HTTP}/protocol/test_openapi_document.py",
        ("a draft cannot be validated before it is saved", '"validate", "POST", "/validate"', '"validate", "POST", "/validated"'),
    ),
    *planted(
        f"{DOMAIN}/json/values.py",
        f"{RULES}/json/test_values.py {HTTP}/resources/test_round_trips.py",
        ("null is not absent on create", "    if not of_all and not _null_is_absent(cls):\n        return frozenset()", "    if cls:\n        return frozenset()"),
    ),
    *planted(
        f"{DOMAIN}/triggers/schedule.py",
        f"{RULES}/triggers",
        ("a schedule that never fires", "    if not parsed.fires:", "    if parsed is None:"),
    ),
    *planted(
        f"{DOMAIN}/agents/suggestions.py",
        f"{RULES}/agents/test_suggestions.py",
        ("a suggestion without a reason", 'short(workflow.description or "") or "it is deployed, and you can start it"', 'short(workflow.description or "")'),
    ),
]  # fmt: skip

HARDENING: Final = [*OUTAGES, *SECURITY, *CONTRACT]
