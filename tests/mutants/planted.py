"""Defects that are planted one at a time, each with the tests that must fail then.

They are faults that were found in wfcore, or published for programs of the same kind: a check of rights that one way
around lacks, a recovery that repeats what must not be repeated, a comparison that accepts more than its form, a bound
that counts wrongly, a wall clock where time must not jump.
"""

from typing import Final

import attrs

# ruff: noqa: E501  (a text of the source is one line here, as long as it is there)

DOMAIN: Final = "src/wfcore/domain"
RUNTIME: Final = "src/wfcore/runtime"
ADAPTERS: Final = "src/wfcore/adapters"
RULES: Final = "tests/unit/domain"
CASES: Final = "tests/unit/runtime"
SERVED: Final = "tests/unit/adapters"


@attrs.frozen
class Mutant:
    """`old`, which occurs once in `file`, is replaced by `new`. At least one of `tests`, arguments of pytest, fails."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def planted(file: str, tests: str, *faults: tuple[str, str, str]) -> list[Mutant]:
    """Mutants of one file, each of name, old and new text, that the same tests notice."""
    return [Mutant(name, file, old, new, tuple(tests.split())) for name, old, new in faults]


ACCESS: Final = [
    *planted(
        f"{DOMAIN}/resources/access.py",
        f"{RULES}/resources/test_access.py",
        ("write includes every right of its area", 'if not scope.endswith(":read") or scope[: -len("read")] + "write"',
         'if scope.partition(":")[0] + ":write"'),
        ("an address counts that nobody verified", "if self.email and self.email_verified else None",
         "if self.email else None"),
        ("a member is not in the group of everybody", "return self.groups | {self.org_uuid}", "return self.groups"),
        ("use includes manage", "any(grant.manage for grant in rules)", "any(grant.use for grant in rules)"),
        ("a reused address of the owner inherits", "elif config.owner_email is not None:",
         "if config.owner_email is not None:"),
        ("a reused address of a guest inherits",
         'f"e:{entry.email}" if entry.user_id is None else f"u:{entry.user_id}"', 'f"e:{entry.email}"'),
        ("a guest manages", 'yield Grant(subject, True, False, "sharedWith")',
         'yield Grant(subject, True, True, "sharedWith")'),
        ("a limited credential reaches skills of the same number",
         'return self.workflows is None or (kind == "workflow" and id in self.workflows)',
         "return self.workflows is None or id in self.workflows"),
    ),
    *planted(
        f"{RUNTIME}/common/authorization.py",
        "tests/http/security/test_hidden_resources.py tests/http/security/test_access_matrix.py",
        ("a deleted resource exists for its users", "(resource.status is Status.DELETED and not access.can_manage)",
         "(resource.status is Status.DELETED and not access.visible)"),
        ("who can use can manage", 'if grant == "manage" and not access.can_manage:',
         'if grant == "manage" and not access.visible:'),
    ),
    *planted(
        f"{DOMAIN}/resources/ownership.py",
        f"{RULES}/resources/test_ownership.py",
        ("a reused address owns",
         "if config.owner_user_id is not None:\n        return config.owner_user_id == principal.user_id\n",
         "if config.owner_user_id == principal.user_id:\n        return True\n"),
    ),
    *planted(
        f"{DOMAIN}/resources/lifecycle.py",
        f"{RULES}/resources/test_lifecycle.py",
        ("a deleted workflow runs", "Operation.DELETE: Status.DELETED,\n        Operation.RESTORE: Status.DRAFT,\n    },\n}",
         "Operation.DELETE: Status.DELETED,\n        Operation.RUN: Status.DELETED,\n        Operation.RESTORE: Status.DRAFT,\n    },\n}"),
        ("a restored workflow is not deployed any more", "(Status.DRAFT, True): Status.ACTIVE,",
         "(Status.DRAFT, True): Status.DRAFT,"),
    ),
    *planted(
        f"{RUNTIME}/organization/tokens.py",
        f"{CASES}/organization/test_members.py",
        ("a token outlives its maker's", "(row.expires_at is None or me.expires_at < row.expires_at)",
         "row.expires_at is None"),
        ("a token has more scopes than its maker's", "if missing := missing_scopes(me.scopes, new.scopes):",
         "if missing := missing_scopes(new.scopes, new.scopes):"),
    ),
    *planted(
        f"{RUNTIME}/runs/open_streams.py",
        "tests/http/runs/test_open_streams.py::test_the_directory_ends_streams_of_a_products_users",
        ("a stream outlives the membership of a group", "lost = self.member.groups - later.member.groups",
         "lost = frozenset()"),
        ("a stream outlives the membership", "elif later.member is None:\n            return None",
         "elif later.member is None:\n            return me"),
    ),
]  # fmt: skip

PARSING: Final = [
    *planted(
        f"{DOMAIN}/json/parsing.py",
        f"{RULES}/json/test_parsing.py",
        ("one level too many", "ENCODED_LEVELS - limits.max_depth if", "ENCODED_LEVELS - limits.max_depth - 1 if"),
        ("repeated keys", '        or body.count(b":") != text.count(b":")\n', ""),
        ("NUL in a text", 'b"\\\\u0000" in body', 'b"\\\\x00" in body'),
        ("an integer outside 64 bits", "abs(value) > MAX_INTEGER", "abs(value) > MAX_INTEGER + 1"),
        ("twice as many values", "_has_more_values(body, limits.max_values)", "_has_more_values(body, 2 * limits.max_values)"),
    ),
    *planted(
        f"{DOMAIN}/json/codec.py",
        f"{RULES}/json/test_codec.py",
        ("a negative infinity becomes null", ' or b"\\xcb\\xff" in packed', ""),
        ("NaN beside a subclass of a text becomes null", "return True\n    return (0x7F", "return False\n    return (0x7F"),
    ),
    *planted(
        f"{DOMAIN}/kernel/ids.py",
        f"{RULES}/kernel/test_ids.py",
        ("an id with a line feed", "_PATH_ID.fullmatch(text)", "_PATH_ID.match(text)"),
        ("a token with more after it", "found = _TOKEN.fullmatch(text)", "found = _TOKEN.match(text)"),
        ("an address in other letters", "len(text) > EMAIL_LENGTH or not text.isascii()", "len(text) > EMAIL_LENGTH"),
        ("a run whose id changes its URL", ' and text not in (".", "..")', ""),
    ),
    *planted(
        f"{DOMAIN}/triggers/webhooks.py",
        f"{RULES}/triggers/test_webhooks.py",
        ("a message from the future", "if abs(int(timestamp) * 1000 - now) > TOLERANCE * 1000:",
         "if now - int(timestamp) * 1000 > TOLERANCE * 1000:"),
        ("a repeated header in capitals", "if name.lower() in given:", "if name in given:"),
        ("cookies in the input of a run", "authorization|cookie|signature", "authorization|signature"),
        ("the signature leaves the time out", 'f"{id}.{timestamp}.".encode() + body', 'f"{id}..".encode() + body'),
    ),
    *planted(
        f"{ADAPTERS}/http/core/origins.py",
        f"{SERVED}/http/core/test_origins.py tests/http/security/test_cross_site_writes.py",
        ("one header of the same site is enough", 'return all(site in ("same-origin", "none") for site in sites)',
         'return any(site in ("same-origin", "none") for site in sites)'),
        ("a cookie without an origin", "return bool(origins) and all(", "return not origins or all("),
        ("credentials that a browser adds", "return bool(schemes) and not (from_browser and schemes & _AMBIENT_SCHEMES)",
         "return bool(schemes)"),
        ("an origin that begins like the host", "origin_host == host or _hostname", "origin_host.startswith(host) or _hostname"),
    ),
    *planted(
        f"{ADAPTERS}/outbound/guard.py",
        f"{SERVED}/outbound/test_guard.py",
        ("a private address within NAT64", "if address in NAT64:", "if address == NAT64.network_address:"),
        ("a private address within 6to4", '"2002::/16",', '"3ffe::/16",'),
        ("an address in another base", '_NUMBER.fullmatch(host.rpartition(".")[2])', "_NUMBER.fullmatch(host)"),
    ),
    *planted(
        f"{ADAPTERS}/outbound/client.py",
        f"{SERVED}/outbound/test_client.py",
        ("a redirect takes credentials to another port", "if url.origin != self.url.origin:",
         "if url.host != self.url.host:"),
        ("a redirect leaves TLS", '(self.url.scheme, url.scheme) == ("https", "http")',
         '(self.url.scheme, url.scheme) == ("https", "ftp")'),
    ),
    *planted(
        f"{ADAPTERS}/sealing.py",
        f"{SERVED}/test_sealing.py {SERVED}/sql/sqlite/test_file_modes.py",
        ("others read the key", "os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600", "os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644"),
    ),
]  # fmt: skip

RUNS: Final = [
    *planted(
        f"{DOMAIN}/run/machine/states/interrupts.py",
        f"{RULES}/run/test_interrupts.py",
        ("one vote too few", "len(interrupt.answers) < interrupt.required:", "len(interrupt.answers) < interrupt.required - 1:"),
        ("a passed deadline approves", 'given(node.approval.on_timeout) or "deny"',
         'given(node.approval.on_timeout) or "approve"'),
        ("the digest leaves the tool out", '"digest": fingerprint(bound)', '"digest": fingerprint(arguments)'),
    ),
    *planted(
        f"{DOMAIN}/run/state.py",
        f"{RULES}/run/test_deciders.py {RULES}/run/test_interrupts.py",
        ("the starter approves", 'return found if self.allow_self else {**found, starter: "self_approval"}', "return found"),
        ("one person votes twice", "for vote in self.answers for user in vote.people", "for vote in self.answers[1:] for user in vote.people"),
    ),
    *planted(
        f"{DOMAIN}/run/machine/states/deciders.py",
        f"{RULES}/run/test_deciders.py {RULES}/run/test_interrupts.py",
        ("use is enough to decide", "if interrupt.named else can_use", "if interrupt.named and not can_use else can_use"),
        ("a form is not checked", 'interrupt.form_schema is not None and decision.decision == "approve":', 'interrupt.form_schema is not None and decision.decision == "approved":'),
    ),
    *planted(
        f"{DOMAIN}/run/machine/requests.py",
        f"{RULES}/run/test_machine.py {RULES}/run/agents/test_agents.py {RULES}/run/repairs/test_retry.py",
        ("one attempt too many", "tries(effect) < most_attempts(node, effect, reason):\n        retry", "tries(effect) <= most_attempts(node, effect, reason):\n        retry"),
        ("a changed tool fails its node", ' or (reason == CHANGED and "definition" in info)', ""),
        ("one effect too many at once", "if len(run.root.pending) >= bound:", "if len(run.root.pending) > bound:"),
    ),
    *planted(
        f"{DOMAIN}/run/machine/actions.py",
        f"{RULES}/run/test_machine.py {RULES}/run/repairs/test_retry.py {RULES}/run/test_interrupts.py",
        ("one call too many at once", "and batch.live < node.max_concurrency", "and batch.live <= node.max_concurrency"),
        ("a retry repeats completed items", "        if step not in batch.done:\n            batch.live += 1",
         "        if step >= 0:\n            batch.live += 1"),
        ("a call before its definition is known", '        and (not node.binds_definition or batch.definition != "")\n', ""),
    ),
    *planted(
        f"{DOMAIN}/run/machine/entries/straight.py",
        f"{RULES}/run/test_straight.py tests/properties/runs/test_straight_laws.py",
        ("a segment passes the bound of visits", "count >= to_visit", "count > to_visit"),
        ("a segment goes on in a turn that is to park", "    if run.phase is not RUNNING or run.requested_at is not None or \"config\" in run.info:\n        return 0", "    if run.requested_at is not None or \"config\" in run.info:\n        return 0"),
        ("a segment takes the outcome of another attempt", "effect is None or effect.attempt != outcome.attempt", "effect is None"),
        ("a segment forgets the output of its call", '                del outputs[name]\n                break', "                break"),
        ("a segment shows one event without an observer", "else 2 * count", "else count"),
        ("a segment calls a node that was given an output", "        if following < 0 or nodes[following] is not IDLE or following in left:\n            break", "        if following < 0 or nodes[following] is not IDLE:\n            break"),
        ("a segment leaves its first call pending", "        del pending[first]\n", ""),
        ("a segment takes the result of another call", "if entry.node != begun or entry.visit != visit or", "if entry.visit != visit or"),
        ("a segment takes a later attempt of a call", " or entry.step or entry.attempt != 1:", " or entry.step:"),
        ("a segment calls without the parameters", "then.tool, params, 0,", "then.tool, None, 0,"),
        ("a segment knows parameters that are not constant", "        if not is_known[index]:\n            return\n", ""),
        ("a segment knows a call beyond the bound", "limits.max_node_visits - run.visited):", "limits.max_node_visits):"),
    ),
    *planted(
        f"{RUNTIME}/execution/session.py",
        "tests/unit/runtime/execution/test_segments.py",
        ("a segment forgets its results", "        go_straight(self.machine.state, results)\n", ""),
        ("a reader sees what is being written", "            return\n        go_straight(self.machine.state, results)", "            pass\n        go_straight(self.machine.state, results)"),
        ("a reader waits for the call after a result", "                loop.call_soon(self._apply, results)\n", "                pass\n"),
        ("a segment calls on after somebody else wrote", "                if not await self._commit(append):\n                    await self._catch_up()", "                if not await self._commit(append) and False:\n                    await self._catch_up()"),
        ("a segment goes on after a signal", "                if not (may_go_on := self._is_undisturbed(at, due)):", "                if False:"),
        ("a segment holds the event loop", "                if self._time_slice.is_due(self, at):", "                if False:"),
        ("a segment ends with its time slice", "self._is_undisturbed(at, due)):\n                    break", "self._may_go_on(at - 1, due)):\n                    break"),
    ),
    *planted(
        f"{RUNTIME}/tools/calls.py",
        "tests/unit/runtime/execution/test_segments.py",
        ("constant arguments are not checked", "        if self._schema.check(params, \"params\"):\n", "        if False:\n"),
    ),
    *planted(
        f"{RUNTIME}/execution/prepared_calls.py",
        "tests/unit/runtime/execution/test_segments.py",
        ("a segment announces nothing", " or node.tool not in self._harmless:", ":"),
        ("a segment has no time limits", "        if node.timeout is not None or node", "        if node"),
    ),
    *planted(
        f"{DOMAIN}/run/machine/states/snapshots.py",
        "tests/properties/runs/test_snapshot_laws.py tests/replays/test_replays.py tests/unit/runtime/execution/test_snapshots.py",
        ("a snapshot forgets which handles were taken", 'frozenset(("outer", "plan"))', 'frozenset(("handles", "outer", "plan"))'),
        ("expressions read old outputs after a snapshot", '{"nodes": frame.outputs, "run": run.info}', '{"nodes": {}, "run": run.info}'),
        ("a snapshot of a moved run has its first plan", "first if run.pinned is None else plans[run.pinned]", "first"),
        ("a child of a snapshot stands alone", "        _connect(run, child, frame, _plan_of(run, child))", "        _connect(run, child, None, _plan_of(run, child))"),
        ("a snapshot of another layout is read", "found if found.layout == layout() else None", "found"),
        ("an ended execution keeps its snapshot", "        return NONE if run.length", "        return None if run.length"),
        ("every park writes a snapshot", "run.length - run.snapshot < INTERVAL", "run.length < INTERVAL"),
        ("a short run gets a snapshot", "if run.phase in OPEN or run.length - run.snapshot < INTERVAL:", "if run.phase in OPEN:"),
    ),
    *planted(
        f"{DOMAIN}/run/machine/states/state.py",
        "tests/properties/runs/test_snapshot_laws.py tests/replays/test_replays.py",
        ("a snapshot makes a float of a count", "    usage: dict[str, Number]", "    usage: dict[str, float]"),
    ),
    *planted(
        f"{ADAPTERS}/sql/journal/journal.py",
        "tests/unit/adapters/sql/test_damaged_journals.py",
        ("a changed snapshot is read", "            if following(body, last) == checksum:\n", "            if True:\n"),
    ),
    *planted(
        f"{DOMAIN}/run/plan.py",
        f"{RULES}/run/test_straight.py tests/properties/runs/test_straight_laws.py",
        ("a segment goes through a join", "if then.plain and then.joins == 1 else -1", "if then.plain else -1"),
        ("a segment goes through a cycle", "-1 if nest.loops else _following", "_following"),
    ),
    *planted(
        f"{DOMAIN}/run/plan.py",
        f"{RULES}/run/test_next_steps.py tests/properties/runs/test_run_laws.py",
        ("a run with a decision first needs a driver", "        if node.kind is NodeType.HUMAN_APPROVAL:\n            continue\n", ""),
        ("a run with calls needs no driver", "not node.pure):\n            return True", "not node.pure):\n            return False"),
    ),
    *planted(
        f"{ADAPTERS}/sql/journal/checksums.py",
        "tests/unit/adapters/sql/journal/test_checksums.py",
        ("a cached checksum has another place", "(after + count, checksum,", "(after + 1, checksum,"),
    ),
    *planted(
        f"{ADAPTERS}/sql/journal/writes.py",
        "tests/contracts/stores/test_journal.py::TestSqlJournal",
        ("entries written together have one checksum before them", "text.decode(), checksum, before))\n        before = checksum\n", "text.decode(), checksum, before))\n"),
    ),
    *planted(
        f"{ADAPTERS}/sql/sqlite/group_commit.py",
        "tests/unit/adapters/sql/sqlite/test_group_commit.py",
        ("an execution beside others waits for no group", "if row[0] != self._last and not _is_quiet", "if self._last is None and not _is_quiet"),
        ("a group that grows does not wait", "        if self._is_growing():", "        if False:"),
        ("a large group waits", " and self._seen < LARGE", ""),
    ),
    *planted(
        f"{ADAPTERS}/sql/postgres/group_commit.py",
        "tests/unit/adapters/sql/postgres/test_group_commit.py",
        ("a refused part among many is committed", "        if must_write and result.rowcount <", "        if must_write and result.rowcount < 0 <"),
        ("the keys of many rows are given to others", "keys = sorted(result.rows)", "keys = sorted(result.rows, reverse=True)"),
        ("one that changes nothing is committed with others", "SELECT 1 / {is_all} FROM changed", "SELECT {is_all} FROM changed"),
        ("some of many rows may change nothing", "(count(*) = cardinality($1))::int", "count(*)"),
        ("nobody learns which statement changed nothing", "                must_attribute = True", "                pass"),
        ("the calls of a function change places", "        place = 0\n        for call in calls:\n", "        for call in calls:\n            place = 0\n"),
        ("a quote ends a text of many rows", """.replace('"', '\\\\"') + '"'""", """ + '"'"""),
    ),
    *planted(
        f"{ADAPTERS}/sql/postgres/pipeline.py",
        "tests/unit/adapters/sql/postgres/test_group_commit.py tests/unit/adapters/sql/postgres/test_one_writer.py",
        ("a row gets into a transaction of others", "connection.lost or self._turn.locked()", "connection.lost"),
        ("statements without a question are not sent", "        elif self._queued:\n", "        elif not self._queued:\n"),
    ),
    *planted(
        f"{ADAPTERS}/sql/postgres/pipeline.py",
        "tests/unit/adapters/sql/postgres/test_pipeline.py",
        ("the plans for empty tables are kept", "if not self._until_planned:", "if self._until_planned is None:"),
    ),
    *planted(
        f"{RUNTIME}/execution/session.py",
        f"{CASES}/test_taking_turns.py {CASES}/test_driving.py {CASES}/execution/test_fencing.py",
        ("a conflict in a segment loses the outcome", "                await self._catch_up()\n            await self._record((outcome,))", "                pass\n            await self._record((outcome,))"),
    ),
    *planted(
        f"{DOMAIN}/run/plan.py",
        f"{CASES}/tools/test_calls.py",
        ("an approval does not bind the product's tools", "and not is_built_in,", "and action.tool_id.startswith(SERVED),"),
    ),
    *planted(
        f"{DOMAIN}/agents/narrowing.py",
        f"{RULES}/agents/test_narrowing.py tests/properties/runs/test_narrowing_laws.py",
        ("a config replaces the guardrails", 'allowed.guardrails | frozenset(as_texts(config.get("guardrails") or ()))',
         'frozenset(as_texts(config.get("guardrails") or allowed.guardrails))'),
        ("a config takes an approval away", 'elif tools[name] and tool.get("requiresApproval") is False:',
         'elif tools[name] is None and tool.get("requiresApproval") is False:'),
        ("a config enables a tool", "    if name not in tools:\n        yield", "    if not name:\n        yield"),
        ("one agent's approval frees another's", "needs_approval or tools.get(name, False)", "needs_approval and tools.get(name, True)"),
        ("a later turn widens the model", 'if "model" in before:', 'if "model" in before and "model" not in config:'),
    ),
    *planted(
        f"{RUNTIME}/execution/in_flight.py",
        f"{CASES}/test_unknown_outcomes.py {CASES}/tools/test_mcp_tools.py",
        ("a call that must not repeat is repeated", "elif isinstance(effect, CallTool) and effect.sent:",
         "elif isinstance(effect, CallTool) and effect.sent and effect.agent:"),
        ("a call of another server is repeated", "if is_served(tool_id) or (tool", "if (tool"),
        ("a model's words come twice", "if isinstance(effect, CallModel) and effect.said:",
         "if isinstance(effect, CallModel) and not effect.said:"),
    ),
    *planted(
        f"{RUNTIME}/tools/calls.py",
        f"{CASES}/execution/test_fencing.py {CASES}/tools {CASES}/execution/test_performer.py",
        ("a call after the claim was lost", "if (current.claimed_by, current.epoch) != (execution.claimed_by, execution.epoch):",
         "if current.claimed_by is None:"),
        ("a changed tool is called", "if digest != approved:", "if not digest:"),
        ("arguments of a model are not checked", "if tool.checks or effect.agent:", "if tool.checks and not effect.agent:"),
    ),
    *planted(
        f"{RUNTIME}/tools/calls.py",
        f"{CASES}/test_performing.py",
        ("a later call of a function is not checked", "        _check_arguments(self._schema, params)\n        begun", "        begun"),
    ),
    *planted(
        f"{RUNTIME}/tools/connection_use.py",
        f"{CASES}/tools/test_connection_use.py",
        ("a secret in an error", "raise opened.redacted(error) from None", "raise"),
    ),
    *planted(
        "src/wfcore/domain/agents/secret_masks.py",
        f"{CASES}/tools/test_connection_use.py",
        ("a secret in a result", "text = text.replace(form, MASK)", "pass"),
    ),
    *planted(
        f"{RUNTIME}/runs/decisions.py",
        f"{CASES}/runs/test_decisions.py",
        ("a decision on what was decided looks unknown", "if state is None or interrupt_id in machine.interrupts",
         "if state is not None or interrupt_id in machine.interrupts"),
    ),
]  # fmt: skip

TIME: Final = [
    *planted(
        f"{DOMAIN}/triggers/cron.py",
        f"{RULES}/triggers/test_cron.py {RULES}/triggers/test_schedule.py tests/properties/test_schedule_laws.py",
        ("a day must match twice", "return in_month or in_week if self.either_day", "return in_month and in_week if self.either_day"),
        ("an hour that comes twice", "if not self.every_hour:\n            return timedelta()", "if self.every_hour:\n            return timedelta()"),
    ),
    *planted(
        f"{DOMAIN}/triggers/schedule.py",
        f"{RULES}/triggers/test_schedule.py {RULES}/triggers/test_schedule_issues.py",
        ("a minute over 59", "([01][0-9]|2[0-3]):[0-5][0-9]", "([01][0-9]|2[0-3]):[0-9][0-9]"),
        ("a note that an hour comes once", "if first < second and not _fires_at(schedule, second):", "if first < second:"),
    ),
    *planted(
        f"{RUNTIME}/triggers/webhook_deliveries.py",
        f"{CASES}/triggers/test_webhook_deliveries.py",
        ("another body under the same id", "if row.fingerprint != mark:", "if row.fingerprint is None:"),
        ("a signature of another body", "if not message.is_genuine(secret, raw):", "if not message.signatures:"),
        ("a webhook of another trigger", 'if variation is None or trigger.get("trigger_type") != "webhook":', "if variation is None:"),
    ),
    *planted(
        f"{ADAPTERS}/dispatch/embedded.py",
        f"{CASES}/test_wrong_clocks.py tests/contracts/dispatch/test_dispatcher.py",
        ("silence by the wall clock", "now = self._clock.monotonic()\n        self._silences", "now = self._clock.now()\n        self._silences"),
        ("heartbeats do not count", "if before is None or before.beats != holder.beats:", "if before is None:"),
        ("a clock set back stops the worker", "return min(self._next_beat, self._clock.monotonic() + max(0, due - self._clock.now()))",
         "return self._clock.monotonic() + max(0, due - self._clock.now())"),
        ("a worker drives what it has released", "if holder is not None and holder == self._worker:", "if holder is None or holder == self._worker:"),
        ("a beat drives what a claim under way drives", " and execution not in self._claiming:", ":"),
        ("a lost wake-up", "if execution in self._active:\n            self._wake_again.add(execution)", "if execution in self._active:\n            self._wake_again.discard(execution)"),
    ),
    *planted(
        f"{RUNTIME}/channels/notifier.py",
        f"{CASES}/channels/test_notifier.py",
        ("an event twice after a step of the clock", " or not self._is_free(due, read)", ""),
        ("a hook reports what its maker cannot use", "(hook is None or not await self._may_report(work, due.org, hook, read.notice))", "hook is None"),
        ("a late record counts", "if read is None or (read.next_at, read.tries) != (claimed.next_at, claimed.tries):", "if read is None or read.next_at is None:"),
    ),
    *planted(
        f"{RUNTIME}/channels/delivery_loop.py",
        f"{CASES}/channels/test_notifier.py",
        ("a redirect is a success", "_FIRST_REDIRECT: Final = 300", "_FIRST_REDIRECT: Final = 400"),
        ("one organization takes all deliveries", "active[one.org] >= MAX_PER_ORGANIZATION", "active[one.org] >= MAX_CONCURRENT"),
    ),
    *planted(
        f"{ADAPTERS}/http/core/admission.py",
        f"{SERVED}/http/core/test_admission.py",
        ("a flood takes all turns", "(SHARE if len(self._present) > 1 else SHARE_ALONE)", "SHARE_ALONE"),
        ("a flood goes first", "return other.count < one.count", "return other.count > one.count"),
        ("a flood never has a turn", "one.passed = 0", "one.passed = -PASSES"),
        ("twice as many wait", "if len(one.waiting) >= self._max_waiting:", "if len(one.waiting) >= 2 * self._max_waiting:"),
    ),
    *planted(
        f"{ADAPTERS}/http/core/rate_limits.py",
        f"{SERVED}/http/core/test_rate_limits.py",
        ("the looser of two limits", "whose, limit = max(", "whose, limit = min("),
    ),
    *planted(
        f"{ADAPTERS}/rate_limits/counts.py",
        f"{SERVED}/http/core/test_rate_limits.py",
        ("a window that begins anew", "events.times[0] <= now - length:", "events.times[-1] <= now - length:"),
    ),
]  # fmt: skip

STORES: Final = [
    *planted(
        f"{ADAPTERS}/sql/journal/slots.py",
        "tests/contracts/stores/test_journal.py",
        ("slots that got free at the same time", "sum(freed.get(name, NOTHING)[1] for freed in under_way)", "changes.freed[name][1]"),
        ("who waits for a slot that is free is not told", "self.is_admitted = bool(woken.fetchall())", "woken.fetchall()"),
    ),
    *planted(
        f"{ADAPTERS}/sql/journal/statements.py",
        "tests/contracts/stores/test_journal.py::TestSqlJournal",
        ("a write after the claim was lost", "IS NULL OR claimed_by = {d[4]})\n    AND ({d[2]} = 1", "IS NULL OR claimed_by > 0)\n    AND ({d[2]} = 1"),
        ("another organization's journal", "AND org = {d[2]}) AND pos > {d[3]}", "AND org <> -{d[2]}) AND pos > {d[3]}"),
        ("a claim without a new fencing number", "epoch = epoch + CASE WHEN", "epoch = epoch + 0 * CASE WHEN"),
        ("a turn loses its result", "result = coalesce({d[6]}, result)", "result = {d[6]}"),
    ),
    *planted(
        f"{ADAPTERS}/sql/journal/claims.py",
        "tests/contracts/stores/test_run_limits.py::TestSqliteRunLimits",
        ("a claim beyond the limit of the organization", "return int(most - claimed)", "return int(most)"),
    ),
    *planted(
        f"{ADAPTERS}/sql/journal/checksums.py",
        f"{SERVED}/sql/test_damaged_journals.py",
        ("a changed entry is read", "if self.checksum != checksum:", "if checksum is None:"),
    ),
    *planted(
        f"{ADAPTERS}/sql/sqlite/database.py",
        "tests/crash/disk/test_power_cuts.py::test_every_image_is_the_state_after_a_commit",
        ("FULL is NORMAL", 'f"PRAGMA synchronous = {self._synchronous}"', '"PRAGMA synchronous = NORMAL"'),
    ),
    *planted(
        f"{ADAPTERS}/sql/sqlite/database.py",
        f"{SERVED}/sql/sqlite",
        ("a writer that fails half-way", 'inner.execute("BEGIN IMMEDIATE")\n        except', 'inner.execute("BEGIN")\n        except'),
        ("a look-up sees what is not committed", "self.look_up_connection if self.lock.locked() else ", ""),
        ("others read the database", "os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600", "os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644"),
    ),
    *planted(
        f"{RUNTIME}/common/idempotency.py",
        f"{CASES}/resources/test_resources.py",
        ("another body under the same key", "if kept.fingerprint not in map(fingerprint, (request, *former)):", "if not kept.fingerprint:"),
    ),
]  # fmt: skip

PLANTED: Final = [*ACCESS, *PARSING, *RUNS, *TIME, *STORES]
