"""Examples of requests and responses by the name of their shape: the document shows them beside its schemas."""

from collections.abc import Mapping
from typing import Final

from wfcore.domain.kernel.json_type import JSON

_Object = Mapping[str, JSON]

_ORG: Final = "6f1c2b9e-58c4-4f0b-9f0e-0d4a8c1e7a11"
_AT: Final = "2026-01-02T03:04:05.678Z"
_VARIATION: Final = "01941f29-7c00-7000-8000-000000000001"
_ROW: Final = "01941f29-7c00-7000-8000-000000000002"
_RUN: Final = "order-4711"
_BLOB: Final = f"{'5e884898' * 8}.png"

_TRIGGER: Final[_Object] = {"trigger_type": "manual"}
_ASK: Final[_Object] = {
    "id": "ask",
    "type": "humanApproval",
    "data": {"message": "Refund {{ input.amount }}?"},
}
_STRUCTURE: Final[_Object] = {
    "nodes": [{"id": "start", "type": "start"}, _ASK],
    "edges": [{"id": "e1", "source": "start", "target": "ask"}],
}
_SIMULATION: Final[_Object] = {
    "complete": True,
    "paths": [{"end": "done", "steps": [{"nodeId": "ask", "outcome": "approved"}], "output": ["ask"], "failed": None}],
    "neverReached": [],
    "canFail": [],
    "canExpire": [],
    "deadEnds": [],
    "rules": [
        {
            "rule": "always ends in ask", "status": "holds", "decidedBy": "simulation", "complete": True,
            "counterExample": None,
        }
    ],
}  # fmt: skip
_CONTENT: Final[_Object] = {"trigger": _TRIGGER, "workflowStructure": _STRUCTURE}
_ACCESS: Final[_Object] = {
    "visibility": "shared",
    "groupPermissions": {_ORG: {"use": True, "manage": True}},
    "sharedWith": [],
    "ownerUserId": "ada",
    "ownerEmail": "ada@example.org",
}
_RESOURCE: Final[_Object] = {
    "id": 1,
    "slug": "refunds",
    "name": "Refunds",
    "description": None,
    "status": "draft",
    "orgUuid": _ORG,
    "activeVariationId": None,
    "draftVariationId": _VARIATION,
    "hasUnpublishedChanges": True,
    "accessConfig": _ACCESS,
    "createdAt": _AT,
    "updatedAt": _AT,
    "deletedAt": None,
    "canManage": True,
    "canUse": True,
    "manageDenial": None,
    "variation": None,
}
_INTERRUPT: Final[_Object] = {
    "interruptId": "ask",
    "runId": _RUN,
    "type": "approval",
    "nodeId": "ask",
    "message": "Refund 40?",
    "expiresAt": None,
}
_RECORD: Final[_Object] = {
    "runId": _RUN,
    "status": "interrupted",
    "target": {"type": "workflow", "id": 1},
    "threadId": None,
    "parentRunId": None,
    "resumedBy": None,
    "output": None,
    "error": None,
    "interrupts": [_INTERRUPT],
    "usage": None,
    "createdAt": _AT,
    "updatedAt": _AT,
    "finishedAt": None,
    "retriedBy": None,
    "forkedFrom": None,
    "startedBy": {"userId": "ada", "kind": "person"},
    "executionStartedBy": {"userId": "ada", "kind": "person"},
    "origin": "api",
    "version": "published",
    "variationId": _VARIATION,
}
_MEMBER: Final[_Object] = {
    "userId": "grace",
    "email": "grace@example.org",
    "name": "Grace",
    "role": "member",
    "groups": [],
}
_TOKEN: Final[_Object] = {
    "id": "Ab3dEf7h",
    "name": "ci",
    "userId": "ada",
    "scopes": ["workflows:read"],
    "createdAt": _AT,
    "expiresAt": None,
    "revokedAt": None,
}
_USED: Final[_Object] = {
    "calls": 2,
    "inputTokens": 1_200,
    "outputTokens": 80,
    "durationMs": 2_300,
    "cost": 0.0023,
}
_ISSUE: Final[_Object] = {"path": "name", "message": "is required", "rule": "required"}
_ERROR: Final[_Object] = {
    "code": "BAD_REQUEST",
    "status": "INVALID_ARGUMENT",
    "message": "`name`: is required",
    "requestId": "01941f29-7c00-7000-8000-00000000000a",
    "info": {"errors": [_ISSUE]},
}

PARAMETERS: Final[Mapping[str, JSON]] = {
    "id": 1,
    "runId": _RUN,
    "userId": "grace",
    "groupId": _ROW,
    "interfaceId": _ROW,
    "memoryId": _ROW,
    "webhookId": "Ab3dEf7hAb3dEf7hAb3dEf7hAb3dEf7hAb3dEf7hAb3",
    "tokenId": "Ab3dEf7h",
    "threadId": "document-4711",
    "itemId": _ROW,
    "policyId": _ROW,
    "connectionId": _ROW,
}
"""Path parameters by name."""

REQUESTS: Final[Mapping[str, JSON]] = {
    "Body": {},
    "CreateWorkflow": {"name": "Refunds", "type": "workflow", **_CONTENT},
    "PatchWorkflow": {"description": "Money back", "workflowStructure": _STRUCTURE},
    "ValidateBody": {"name": "Refunds", **_CONTENT},
    "ToggleBody": {"isEnabled": False},
    "RollbackBody": {"variationId": _VARIATION},
    "DeploySkill": {"force": False},
    "TransferBody": {"userId": "grace"},
    "CreateInterface": {"kind": "mcp", "config": {"title": "Refunds"}},
    "PatchInterface": {"config": {"title": "Money back"}},
    "TeamMessage": {
        "type": "message", "channel": "support", "thread": "4711", "user": "grace", "text": "Where is order 4711?",
    },
    "TeamDecision": {
        "type": "decision", "messageId": "msg_1", "interruptId": "int_1", "decision": "approve",
        "email": "grace@example.org",
    },
    "CreateSkill": {"name": "Refunds", "slug": "refunds", "instructions": ["Be kind."]},
    "ValidateSkill": {"name": "Refunds", "instructions": ["Be kind."]},
    "RunAgentInput": {
        "threadId": "thread-1", "runId": _RUN, "messages": [{"role": "user", "content": "Where is order 4711?"}],
    },
    "PatchSkill": {
        "instructions": ["Be kind.", "Be brief."],
        "evaluations": [
            {
                "id": "polite", "required": True, "input": {"message": "Where is my order?"},
                "tools": {"crm.find_order": {"status": "sent"}},
                "checks": [{"kind": "contains", "value": "sent"}, {"kind": "judge", "criteria": "It is polite"}],
            }
        ],
    },
    "Supervision": {"supervisionSubordinateIds": [], "supervisionSubordinateDescriptions": {}},
    "CreateMemory": {"memory": "Prefers vouchers", "metadata": {"source": "chat"}, "userId": "customer-7"},
    "PatchMemory": {"memory": "Prefers money"},
    "SearchMemories": {"query": "vouchers", "limit": 5},
    "CreateRun": {"workflowId": 1, "input": {"amount": 40}},
    "ResumeRun": {"decision": "approve"},
    "RetryRun": {"version": "published", "skip": ["notify"]},
    "MoveRuns": {"all": True},
    "ProposeChange": {"request": "Ask the finance team before a refund", "rules": ["always ends in ask"]},
    "TestNode": {"input": {"amount": 40}, "outputs": {"look_up": {"balance": 100}}},
    "RetryRuns": {"filter": {"workflowId": 1, "status": "error"}, "version": "published", "preview": True},
    "ForkRun": {"before": "review", "input": {"n": 2}},
    "DecideInterrupts": {"decisions": [{"interruptId": "ask", "decision": "approve"}]},
    "Chat": {"message": "Where is order 4711?", "sessionId": "browser-tab-1"},
    "RunAction": {
        "action": {"toolId": "core.transform", "params": {"value": "{{ nodes.order.output.amount }}"}},
        "previousOutputs": {"order": {"amount": 40}}, "timezone": "Europe/Paris", "origin": "automation",
    },
    "CreateMember": {"userId": "linus", "email": "linus@example.org", "role": "member"},
    "EraseMember": {"transferTo": "grace"},
    "PatchMember": {"name": "Grace H.", "role": "admin"},
    "CreateGroup": {"name": "Clerks"},
    "PatchGroup": {"name": "Chief clerks"},
    "SkillContext": {"message": "Where is order 4711?", "sessionId": "browser-tab-1", "view": "active"},
    "AssistantContext": {"message": "Where is order 4711?", "sessionId": "browser-tab-1"},
    "CreateContextItem": {"title": "Refund rules", "content": "Within 30 days."},
    "PatchContextItem": {"content": "Within 60 days."},
    "CreateConnection": {
        "name": "Payments", "provider": "payments", "kind": "api_key",
        "config": {"apiKey": "sk-4711", "header": "X-Api-Key"},
    },
    "PatchConnection": {"status": "disabled"},
    "CreateHook": {
        "url": "https://crm.example.org/wfcore", "events": ["interrupt.opened", "run.failed"],
        "filter": {"workflowId": 7},
    },
    "PatchHook": {"events": ["run.failed"], "filter": None},
    "CreateDelegation": {"to": "bob", "until": "2099-01-02T17:00:00.000Z", "workflowIds": [7]},
    "PatchDelegation": {"until": None},
    "CreatePolicy": {
        "name": "Refunds are approved", "when": {"tool": "send_refund"},
        "require": {"approval": {"groups": [_ORG], "requiredApprovals": 2}},
    },
    "PatchPolicy": {"severity": "warning"},
    "CreateToken": {"name": "ci", "scopes": ["workflows:read"], "expiresInSeconds": 86_400},
    "EvaluateExpression": {"source": "input.amount > 100", "values": {"input": {"amount": 40}}},
    "SimulateWorkflow": {"workflowStructure": _STRUCTURE, "rules": ["always ends in ask"]},
    "McpMessage": {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
}  # fmt: skip
"""Bodies of requests. Each is accepted where the resources that it names exist."""

RESPONSES: Final[Mapping[str, JSON]] = {
    "Workflow": {**_RESOURCE, "type": "workflow", "isEnabled": False},
    "Scope": _RESOURCE,
    "RunAccepted": {"runId": _RUN, "status": "interrupted"},
    "Upload": {"uploadId": _BLOB, "storageKey": _BLOB, "mimeType": "image/png", "sizeBytes": 48_213},
    "RunRecord": _RECORD,
    "Interrupt": _INTERRUPT,
    "Event": {"kind": "node_started", "runId": _RUN, "seq": 2, "at": _AT, "nodeId": "ask", "visit": 1},
    "WorkflowInterface": {"id": _ROW, "kind": "mcp", "config": {}, "createdAt": _AT, "url": f"/interfaces/mcp/{_ROW}"},
    "ChatAppRow": {
        "id": _ROW, "workflowId": 1, "skillId": None, "name": "Refunds", "description": "Pays money back",
        "takesMessage": True,
    },
    "WebhookSecret": {
        "url": "https://flows.example.org/webhooks/Ab3dEf7hAb3dEf7hAb3dEf7hAb3dEf7hAb3dEf7hAb3",
        "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    },
    "Memory": {
        "id": _ROW, "memory": "Likes tea", "metadata": {}, "createdAt": _AT, "updatedAt": _AT,
        "hash": "d73e14c05fd1687b02cd2925f679804d884465fa14a42ec442961d0eb336dca0",
    },
    "Conversation": {
        "threadId": "document-4711", "skillId": 1, "createdAt": _AT, "updatedAt": _AT, "nextPageToken": None,
        "messages": [{"type": "human", "content": "Where is order 4711?", "id": _ROW, "toolCalls": []}],
    },
    "UsageReport": {
        "usage": [{"key": "fast", **_USED}], "totals": _USED, "from": _AT, "to": "2026-02-01T00:00:00.000Z",
        "groupBy": "model",
    },
    "Suggestions": {
        "suggestions": [{
            "prompt": "Let us go on with this: Where is order 4711?", "reason": "you talked about this lately",
            "target": {"type": "conversation", "threadId": "document-4711", "skillId": 1},
        }],
    },
    "Member": _MEMBER,
    "Erasure": {"id": "erased-000000000002", "status": "done", "progress": {"done": 41, "total": 41}},
    "Group": {"id": _ROW, "name": "Clerks"},
    "Token": _TOKEN,
    "NewToken": {**_TOKEN, "token": f"svc_{_ORG}_Ab3dEf7h_{'x' * 43}"},
    "Issues": {"issues": [{**_ISSUE, "severity": "error"}]},
    "ComposedContext": {
        "messages": [
            {"type": "system", "content": "Be kind."}, {"type": "human", "content": "Where is order 4711?"},
        ],
        "model": "default", "settings": {"contextWindow": 8_000},
        "tools": [{
            "name": "skill_refunds", "toolId": "skill:1", "kind": "skill", "description": "Pays money back",
            "parameters": {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]},
            "requiresApproval": False, "resourceId": 1, "variationId": _ROW,
            "digest": "sha256:3bd3c1b2a8b2d6a2c1f1a4c0a6a2f3d4e5f60718293a4b5c6d7e8f9012345678",
        }],
        "segments": [
            {"source": "instructions", "ref": "1", "tokens": 8, "why": "the instructions of the agent"},
            {"source": "subordinates", "ref": "skill:1", "tokens": 52, "why": "a skill to hand work to"},
            {"source": "message", "ref": None, "tokens": 11, "why": "the message to the agent"},
        ],
        "leftOut": [{"source": "conversation", "ref": "document-4711", "why": "older messages do not fit into the "
                     "context window"}],
        "tokenEstimate": 71, "contextWindow": 8_000,
        "digest": "sha256:9f2c1b2a8b2d6a2c1f1a4c0a6a2f3d4e5f60718293a4b5c6d7e8f9012345678a",
    },
    "ContextItem": {
        "id": _ROW, "title": "Refund rules", "content": "Within 30 days.", "createdAt": _AT, "updatedAt": _AT,
    },
    "Delegation": {"id": _ROW, "from": "ann", "to": "bob", "until": "2099-01-02T17:00:00.000Z", "workflowIds": [7]},
    "Policy": {
        "id": _ROW, "name": "Refunds are approved", "when": {"tool": "send_refund"},
        "require": {"approval": {"groups": [_ORG], "requiredApprovals": 2}}, "severity": "error",
    },
    "NextRuns": {"nextRuns": [{"at": _AT, "local": "2026-01-02T04:04:05", "note": None}]},
    "ListedSchedule": {
        "id": 7, "slug": "refunds", "name": "Refunds", "canManage": True,
        "isEnabled": True, "nextAt": _AT, "paused": None, "overlap": "skip", "lastRunId": _RUN, "missed": [],
        "nextRuns": [{"at": _AT, "local": "2026-01-02T04:04:05", "note": None}],
    },
    "Evaluated": {"value": False},
    "Simulation": _SIMULATION,
    "Proposal": {
        "explanation": "Finance approves before a refund.", "workflowStructure": _STRUCTURE, "simulation": _SIMULATION,
        "diff": {
            "nodes": {"added": ["ask"], "removed": [], "changed": []},
            "edges": {"added": ["e1"], "removed": [], "changed": []},
            "fields": [],
        },
        "runIds": [_RUN], "usage": {"calls": 1, "inputTokens": 2100, "outputTokens": 140},
    },
    "ErrorEnvelope": {"error": _ERROR},
}  # fmt: skip
"""Bodies of responses."""
