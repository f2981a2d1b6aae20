"""The messages of a conversation, from the records of its runs (interface, Message)."""

import json
from collections.abc import Iterable, Mapping, Sequence

import attrs

from wfcore.domain.agents.context_attachments import tokens_of
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.records import MessageRecord


@attrs.frozen
class MessageRow:
    """One message. `length` is the size of the text and of the tool calls as JSON, in bytes of UTF-8; `attached` is
    the estimated number of tokens of its attachments; `at` is in epoch milliseconds.
    """

    type: str
    id: str
    content: str
    tool_calls: Sequence[JSON]
    tool_call_id: str | None
    skill_id: int | None
    at: int
    attachments: Mapping[str, JSON] | None
    length: int
    attached: int


def message_rows(records: Iterable[object]) -> list[MessageRow]:
    """The messages that belong to the conversation: those outside of frames."""
    return [_row(record) for record in records if isinstance(record, MessageRecord) and not record.path]


def _row(record: MessageRecord) -> MessageRow:
    return MessageRow(record.type, record.id, record.content, record.tool_calls, record.tool_call_id, record.skill_id,
                      record.at, record.attachments, _length_of(record), tokens_of(record.attachments))  # fmt: skip


def _length_of(record: MessageRecord) -> int:
    calls = json.dumps(list(record.tool_calls), ensure_ascii=False, separators=(",", ":")) if record.tool_calls else ""
    return len(record.content.encode()) + len(calls.encode())
