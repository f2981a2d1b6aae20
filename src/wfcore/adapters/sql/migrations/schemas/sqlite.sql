CREATE TABLE wfcore_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT wfcore_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE wfcore_organizations (
    "key" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    uuid TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    max_concurrent_runs INTEGER,
    UNIQUE (uuid)
);

CREATE INDEX wfcore_organizations_limited ON wfcore_organizations (max_concurrent_runs) WHERE max_concurrent_runs IS NOT NULL;

CREATE TABLE wfcore_members (
    org INTEGER NOT NULL,
    user_id TEXT NOT NULL,
    email TEXT,
    email_verified BOOLEAN NOT NULL,
    name TEXT,
    role TEXT NOT NULL,
    PRIMARY KEY (org, user_id),
    FOREIGN KEY(org) REFERENCES wfcore_organizations ("key")
)
 WITHOUT ROWID;

CREATE INDEX wfcore_members_email ON wfcore_members (org, email, user_id);

CREATE TABLE wfcore_groups (
    org INTEGER NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (org, id),
    FOREIGN KEY(org) REFERENCES wfcore_organizations ("key")
)
 WITHOUT ROWID;

CREATE TABLE wfcore_group_members (
    org INTEGER NOT NULL,
    user_id TEXT NOT NULL,
    group_id TEXT NOT NULL,
    PRIMARY KEY (org, user_id, group_id),
    FOREIGN KEY(org, user_id) REFERENCES wfcore_members (org, user_id)
)
 WITHOUT ROWID;

CREATE INDEX wfcore_group_members_group ON wfcore_group_members (org, group_id, user_id);

CREATE TABLE wfcore_tokens (
    org INTEGER NOT NULL,
    prefix TEXT NOT NULL,
    secret_hash TEXT NOT NULL,
    user_id TEXT NOT NULL,
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    PRIMARY KEY (org, prefix),
    FOREIGN KEY(org) REFERENCES wfcore_organizations ("key")
)
 WITHOUT ROWID;

CREATE INDEX wfcore_tokens_user ON wfcore_tokens (org, user_id, created_at, prefix);

CREATE TABLE wfcore_audit (
    "key" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    org INTEGER NOT NULL,
    at INTEGER NOT NULL,
    user_id TEXT,
    action TEXT NOT NULL,
    kind TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    details TEXT NOT NULL,
    request_id TEXT,
    remote_address TEXT,
    FOREIGN KEY(org) REFERENCES wfcore_organizations ("key")
);

CREATE INDEX wfcore_audit_at ON wfcore_audit (org, at, "key");

CREATE INDEX wfcore_audit_user ON wfcore_audit (org, user_id, at, "key");

CREATE INDEX wfcore_audit_action ON wfcore_audit (org, action, at, "key");

CREATE TABLE wfcore_counters (
    org INTEGER NOT NULL,
    kind TEXT NOT NULL,
    last INTEGER NOT NULL,
    PRIMARY KEY (org, kind),
    FOREIGN KEY(org) REFERENCES wfcore_organizations ("key")
)
 WITHOUT ROWID;

CREATE TABLE wfcore_resources (
    "key" INTEGER NOT NULL,
    org INTEGER NOT NULL,
    kind TEXT NOT NULL,
    id INTEGER NOT NULL,
    slug TEXT NOT NULL,
    name TEXT NOT NULL,
    description TEXT,
    status TEXT NOT NULL,
    access TEXT NOT NULL,
    active_variation_id TEXT,
    draft_variation_id TEXT,
    is_enabled BOOLEAN NOT NULL,
    pending_transfer TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    revision INTEGER NOT NULL,
    max_concurrent_runs INTEGER,
    is_scheduled BOOLEAN NOT NULL,
    PRIMARY KEY ("key"),
    UNIQUE (org, kind, id),
    UNIQUE (org, kind, slug),
    FOREIGN KEY(org) REFERENCES wfcore_organizations ("key")
);

CREATE INDEX wfcore_resources_limited ON wfcore_resources (org, kind, id) WHERE max_concurrent_runs IS NOT NULL;

CREATE INDEX wfcore_resources_scheduled ON wfcore_resources (org, kind, id) WHERE is_scheduled;

CREATE TABLE wfcore_grants (
    resource INTEGER NOT NULL,
    subject TEXT NOT NULL,
    use BOOLEAN NOT NULL,
    manage BOOLEAN NOT NULL,
    PRIMARY KEY (resource, subject),
    FOREIGN KEY(resource) REFERENCES wfcore_resources ("key")
)
 WITHOUT ROWID;

CREATE INDEX wfcore_grants_subject ON wfcore_grants (subject);

CREATE TABLE wfcore_variations (
    org INTEGER NOT NULL,
    kind TEXT NOT NULL,
    resource_id INTEGER NOT NULL,
    id TEXT NOT NULL,
    content TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    deployed_at INTEGER,
    deployed_by TEXT,
    PRIMARY KEY (org, kind, resource_id, id),
    FOREIGN KEY(org, kind, resource_id) REFERENCES wfcore_resources (org, kind, id)
);

CREATE INDEX wfcore_variations_deployed ON wfcore_variations (org, kind, resource_id, deployed_at DESC, id DESC) WHERE deployed_at IS NOT NULL;

CREATE TABLE wfcore_kept (
    org INTEGER NOT NULL,
    kind TEXT NOT NULL,
    user_id TEXT NOT NULL,
    "key" TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    answer TEXT NOT NULL,
    PRIMARY KEY (org, kind, user_id, "key"),
    FOREIGN KEY(org) REFERENCES wfcore_organizations ("key")
)
 WITHOUT ROWID;

CREATE TABLE wfcore_interfaces (
    org INTEGER NOT NULL,
    target TEXT NOT NULL,
    resource_id INTEGER NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    config TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    sealed TEXT,
    PRIMARY KEY (org, target, resource_id, id),
    FOREIGN KEY(org) REFERENCES wfcore_organizations ("key")
)
 WITHOUT ROWID;

CREATE INDEX wfcore_interfaces_id ON wfcore_interfaces (id);

CREATE TABLE wfcore_context_items (
    org INTEGER NOT NULL,
    id TEXT NOT NULL,
    title TEXT NOT NULL,
    content TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (org, id),
    FOREIGN KEY(org) REFERENCES wfcore_organizations ("key")
)
 WITHOUT ROWID;

CREATE TABLE wfcore_policies (
    org INTEGER NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    condition TEXT NOT NULL,
    requirement TEXT NOT NULL,
    severity TEXT NOT NULL,
    PRIMARY KEY (org, id),
    FOREIGN KEY(org) REFERENCES wfcore_organizations ("key")
)
 WITHOUT ROWID;

CREATE TABLE wfcore_connections (
    org INTEGER NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    provider TEXT NOT NULL,
    kind TEXT NOT NULL,
    config TEXT NOT NULL,
    sealed TEXT NOT NULL,
    status TEXT NOT NULL,
    last_checked_at INTEGER,
    status_reason TEXT,
    ownership TEXT NOT NULL,
    client TEXT NOT NULL,
    PRIMARY KEY (org, id),
    FOREIGN KEY(org) REFERENCES wfcore_organizations ("key")
)
 WITHOUT ROWID;

CREATE TABLE wfcore_connection_grants (
    org INTEGER NOT NULL,
    id TEXT NOT NULL,
    connection_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    sealed TEXT NOT NULL,
    expires_at INTEGER,
    can_refresh BOOLEAN NOT NULL,
    status TEXT NOT NULL,
    reason TEXT,
    leased_until INTEGER NOT NULL,
    PRIMARY KEY (org, id),
    FOREIGN KEY(org) REFERENCES wfcore_organizations ("key")
)
 WITHOUT ROWID;

CREATE TABLE wfcore_memories (
    "key" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    org INTEGER NOT NULL,
    skill_id INTEGER NOT NULL,
    id TEXT NOT NULL,
    memory TEXT,
    hash TEXT NOT NULL,
    metadata TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    user_id TEXT,
    UNIQUE (org, skill_id, id),
    FOREIGN KEY(org) REFERENCES wfcore_organizations ("key")
);

CREATE INDEX wfcore_memories_list ON wfcore_memories (org, skill_id, "key") WHERE memory IS NOT NULL;

CREATE INDEX wfcore_memories_of_user ON wfcore_memories (org, skill_id, user_id, "key") WHERE memory IS NOT NULL;

CREATE TABLE wfcore_memory_words (
    org INTEGER NOT NULL,
    skill_id INTEGER NOT NULL,
    word TEXT NOT NULL,
    memory INTEGER NOT NULL,
    PRIMARY KEY (org, skill_id, word, memory)
)
 WITHOUT ROWID;

CREATE INDEX wfcore_memory_words_of ON wfcore_memory_words (memory);

CREATE TABLE wfcore_schedules (
    org INTEGER NOT NULL,
    workflow_id INTEGER NOT NULL,
    variation_id TEXT NOT NULL,
    next_at INTEGER,
    paused TEXT,
    last_run_id TEXT,
    missed TEXT NOT NULL,
    later TEXT,
    PRIMARY KEY (org, workflow_id),
    FOREIGN KEY(org) REFERENCES wfcore_organizations ("key")
)
 WITHOUT ROWID;

CREATE INDEX wfcore_schedules_due_org ON wfcore_schedules (org, next_at) WHERE next_at IS NOT NULL;

CREATE INDEX wfcore_schedules_due ON wfcore_schedules (next_at) WHERE next_at IS NOT NULL;

CREATE TABLE wfcore_webhooks (
    org INTEGER NOT NULL,
    workflow_id INTEGER NOT NULL,
    digest TEXT NOT NULL,
    sealed TEXT NOT NULL,
    PRIMARY KEY (org, workflow_id),
    FOREIGN KEY(org) REFERENCES wfcore_organizations ("key")
)
 WITHOUT ROWID;

CREATE UNIQUE INDEX wfcore_webhooks_digest ON wfcore_webhooks (digest);

CREATE TABLE wfcore_executions (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    org INTEGER NOT NULL,
    kind TEXT NOT NULL,
    resource_id INTEGER,
    variation_id BLOB,
    is_draft BOOLEAN NOT NULL,
    user_id TEXT NOT NULL,
    thread_id TEXT,
    started_by TEXT NOT NULL,
    wake_at INTEGER,
    claimed_by INTEGER,
    epoch INTEGER NOT NULL
);

CREATE INDEX wfcore_executions_draft ON wfcore_executions (variation_id) WHERE is_draft;

CREATE INDEX wfcore_executions_due ON wfcore_executions (wake_at) WHERE wake_at IS NOT NULL AND claimed_by IS NULL;

CREATE INDEX wfcore_executions_due_org ON wfcore_executions (org, wake_at) WHERE wake_at IS NOT NULL AND claimed_by IS NULL;

CREATE INDEX wfcore_executions_thread ON wfcore_executions (org, thread_id) WHERE thread_id IS NOT NULL;

CREATE INDEX wfcore_executions_variation ON wfcore_executions (variation_id);

CREATE INDEX wfcore_executions_claims ON wfcore_executions (claimed_by) WHERE claimed_by IS NOT NULL;

CREATE TABLE wfcore_journal (
    execution INTEGER NOT NULL,
    pos INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    entry TEXT NOT NULL,
    PRIMARY KEY (execution, pos)
)
 WITHOUT ROWID;

CREATE TABLE wfcore_snapshots (
    execution INTEGER NOT NULL,
    org INTEGER NOT NULL,
    length INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (execution)
);

CREATE TABLE wfcore_runs (
    "key" INTEGER NOT NULL,
    org INTEGER NOT NULL,
    id TEXT NOT NULL,
    execution INTEGER NOT NULL,
    user_id TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    status TEXT NOT NULL,
    parent_run_id TEXT,
    resumed_by TEXT,
    result TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER,
    finished_at INTEGER,
    started_by TEXT NOT NULL,
    origin TEXT NOT NULL,
    target INTEGER NOT NULL,
    retried_by TEXT,
    forked_from TEXT,
    variation_id BLOB,
    is_draft BOOLEAN NOT NULL,
    PRIMARY KEY ("key"),
    UNIQUE (org, id)
);

CREATE INDEX wfcore_runs_variation ON wfcore_runs (variation_id) WHERE variation_id IS NOT NULL;

CREATE INDEX wfcore_runs_target ON wfcore_runs (org, target);

CREATE INDEX wfcore_runs_user ON wfcore_runs (org, user_id);

CREATE INDEX wfcore_runs_created ON wfcore_runs (org, created_at);

CREATE INDEX wfcore_runs_status ON wfcore_runs (org, status) WHERE status != 'done';

CREATE INDEX wfcore_runs_own ON wfcore_runs (org, user_id) WHERE target > 1099511627776;

CREATE INDEX wfcore_runs_origin ON wfcore_runs (org, origin) WHERE origin != '';

CREATE INDEX wfcore_runs_recent ON wfcore_runs (org);

CREATE INDEX wfcore_runs_turns ON wfcore_runs (execution);

CREATE TABLE wfcore_interrupts (
    "key" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    org INTEGER NOT NULL,
    execution INTEGER NOT NULL,
    body TEXT NOT NULL,
    resource INTEGER,
    expires_at INTEGER,
    id_hash INTEGER NOT NULL
);

CREATE INDEX wfcore_interrupts_id ON wfcore_interrupts (id_hash);

CREATE INDEX wfcore_interrupts_inbox ON wfcore_interrupts (resource);

CREATE INDEX wfcore_interrupts_deadline ON wfcore_interrupts (org, expires_at) WHERE expires_at IS NOT NULL;

CREATE INDEX wfcore_interrupts_execution ON wfcore_interrupts (execution);

CREATE TABLE wfcore_closed_interrupts (
    "key" INTEGER NOT NULL,
    org INTEGER NOT NULL,
    execution INTEGER NOT NULL,
    body TEXT NOT NULL,
    decision TEXT NOT NULL,
    decided_at INTEGER NOT NULL,
    resource INTEGER,
    expires_at INTEGER,
    id_hash INTEGER NOT NULL,
    PRIMARY KEY ("key")
);

CREATE INDEX wfcore_closed_interrupts_id ON wfcore_closed_interrupts (id_hash);

CREATE INDEX wfcore_closed_interrupts_inbox ON wfcore_closed_interrupts (resource);

CREATE INDEX wfcore_closed_interrupts_execution ON wfcore_closed_interrupts (execution);

CREATE TABLE wfcore_approvers (
    org INTEGER NOT NULL,
    subject TEXT NOT NULL,
    closed INTEGER NOT NULL,
    interrupt INTEGER NOT NULL,
    PRIMARY KEY (org, subject, closed, interrupt)
)
 WITHOUT ROWID;

CREATE TABLE wfcore_call_slots (
    "key" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    org INTEGER NOT NULL,
    name TEXT NOT NULL,
    execution INTEGER NOT NULL,
    attempt TEXT NOT NULL,
    most INTEGER NOT NULL,
    UNIQUE (execution, attempt)
);

CREATE INDEX wfcore_call_slots_queue ON wfcore_call_slots (org, name, "key");

CREATE INDEX wfcore_approvers_interrupt ON wfcore_approvers (interrupt);

CREATE TABLE wfcore_workers (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    beats INTEGER NOT NULL
);

CREATE TABLE wfcore_conversations (
    "key" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    org INTEGER NOT NULL,
    thread_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (org, thread_id, user_id)
);

CREATE INDEX wfcore_conversations_recent ON wfcore_conversations (org, updated_at DESC, key DESC);

CREATE TABLE wfcore_participants (
    conversation INTEGER NOT NULL,
    kind TEXT NOT NULL,
    id INTEGER NOT NULL,
    org INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (conversation, kind, id)
)
 WITHOUT ROWID;

CREATE INDEX wfcore_participants_recent ON wfcore_participants (org, kind, id, updated_at DESC, conversation DESC);

CREATE TABLE wfcore_messages (
    seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    conversation INTEGER NOT NULL,
    type TEXT NOT NULL,
    length INTEGER NOT NULL,
    skill_id INTEGER,
    attached INTEGER NOT NULL,
    execution INTEGER NOT NULL,
    at INTEGER NOT NULL,
    id TEXT NOT NULL,
    tool_call_id TEXT,
    tool_calls TEXT,
    attachments TEXT,
    content TEXT NOT NULL
);

CREATE INDEX wfcore_messages_conversation ON wfcore_messages (conversation, seq);

CREATE TABLE wfcore_usage (
    "key" INTEGER NOT NULL,
    org INTEGER NOT NULL,
    at INTEGER NOT NULL,
    model TEXT,
    skill_id INTEGER,
    workflow_id INTEGER,
    user_id TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    duration_ms INTEGER NOT NULL,
    cost INTEGER,
    origin TEXT NOT NULL,
    PRIMARY KEY ("key")
);

CREATE INDEX wfcore_usage_at ON wfcore_usage (org, at);

CREATE INDEX wfcore_usage_user ON wfcore_usage (org, user_id, at);

CREATE TABLE wfcore_verdicts (
    execution INTEGER NOT NULL,
    org INTEGER NOT NULL,
    skill_id INTEGER NOT NULL,
    content TEXT NOT NULL,
    evaluation_id TEXT NOT NULL,
    case_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    at INTEGER NOT NULL,
    passed INTEGER,
    body TEXT NOT NULL,
    PRIMARY KEY (execution)
);

CREATE INDEX wfcore_verdicts_content ON wfcore_verdicts (org, skill_id, content, case_id, execution);

CREATE TABLE wfcore_postings (
    org INTEGER NOT NULL,
    id TEXT NOT NULL,
    interface_id TEXT NOT NULL,
    mark TEXT NOT NULL,
    place TEXT NOT NULL,
    run_id TEXT NOT NULL,
    next_at INTEGER,
    told TEXT,
    tries INTEGER NOT NULL,
    PRIMARY KEY (org, id),
    FOREIGN KEY(org) REFERENCES wfcore_organizations ("key")
)
 WITHOUT ROWID;

CREATE INDEX wfcore_postings_due_org ON wfcore_postings (org, next_at) WHERE next_at IS NOT NULL;

CREATE INDEX wfcore_postings_due ON wfcore_postings (next_at) WHERE next_at IS NOT NULL;

CREATE TABLE wfcore_hooks (
    org INTEGER NOT NULL,
    id TEXT NOT NULL,
    url TEXT NOT NULL,
    events TEXT NOT NULL,
    workflow_id INTEGER,
    is_enabled BOOLEAN NOT NULL,
    user_id TEXT NOT NULL,
    sealed TEXT NOT NULL,
    former TEXT,
    former_until INTEGER NOT NULL,
    PRIMARY KEY (org, id),
    FOREIGN KEY(org) REFERENCES wfcore_organizations ("key")
)
 WITHOUT ROWID;

CREATE TABLE wfcore_subscriptions (
    org INTEGER NOT NULL,
    event TEXT NOT NULL,
    hook TEXT NOT NULL,
    handler TEXT NOT NULL,
    workflow_id INTEGER,
    PRIMARY KEY (org, event, hook, handler)
)
 WITHOUT ROWID;

CREATE TABLE wfcore_deliveries (
    "key" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    org INTEGER NOT NULL,
    hook TEXT NOT NULL,
    handler TEXT NOT NULL,
    event TEXT NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    resource_id INTEGER,
    user_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    interrupt_id TEXT NOT NULL,
    status TEXT,
    decision TEXT,
    state TEXT NOT NULL,
    next_at INTEGER,
    tries INTEGER NOT NULL,
    attempts TEXT NOT NULL,
    body TEXT
);

CREATE INDEX wfcore_deliveries_hook ON wfcore_deliveries (org, hook, "key");

CREATE INDEX wfcore_deliveries_due ON wfcore_deliveries (handler, next_at) WHERE next_at IS NOT NULL;

CREATE INDEX wfcore_deliveries_due_org ON wfcore_deliveries (handler, org, next_at) WHERE next_at IS NOT NULL;

CREATE TABLE wfcore_delegations (
    org INTEGER NOT NULL,
    id TEXT NOT NULL,
    from_user TEXT NOT NULL,
    to_user TEXT NOT NULL,
    until INTEGER,
    workflow_ids TEXT,
    PRIMARY KEY (org, id),
    FOREIGN KEY(org) REFERENCES wfcore_organizations ("key")
)
 WITHOUT ROWID;

CREATE INDEX wfcore_delegations_from ON wfcore_delegations (org, from_user);

CREATE INDEX wfcore_delegations_to ON wfcore_delegations (org, to_user);

CREATE TABLE wfcore_erasures (
    org INTEGER NOT NULL,
    id TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (org, id),
    FOREIGN KEY(org) REFERENCES wfcore_organizations ("key")
)
 WITHOUT ROWID;

INSERT INTO wfcore_version VALUES ('0001');
