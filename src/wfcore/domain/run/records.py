"""What a run leaves behind beside its journal: the messages of its conversation, and what its models consumed.

The machine derives records from entries; whoever appends the entries writes the records in the same transaction.
Folding a journal makes them again, so only those of new entries are to be written.
"""

from collections.abc import Mapping, Sequence

import attrs

from wfcore.domain.kernel.json_type import JSON


@attrs.frozen
class MessageRecord:
    """One message (interface, Message). `path` names the nodes from the root to the frame; `at` is in epoch
    milliseconds; `attachments` are those of the message in a context (`context_attachments`).
    """

    type: str
    id: str
    content: str
    tool_calls: Sequence[JSON] = ()
    tool_call_id: str | None = None
    skill_id: int | None = None
    path: tuple[str, ...] = ()
    at: int = 0
    attachments: Mapping[str, JSON] | None = None


@attrs.frozen
class UsageRecord:
    """What one completion cost: tokens, calls, and milliseconds, as far as the provider's adapter reports them."""

    model: str | None
    skill_id: int | None
    node_id: str
    input_tokens: int = 0
    output_tokens: int = 0
    calls: int = 1
    duration_ms: int = 0
    path: tuple[str, ...] = ()
    at: int = 0


Record = MessageRecord | UsageRecord
