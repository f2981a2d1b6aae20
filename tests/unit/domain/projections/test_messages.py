"""The messages of a conversation in the records of a run."""

from wfcore.domain.projections.messages import MessageRow, message_rows
from wfcore.domain.run.records import MessageRecord, UsageRecord


def test_messages_outside_of_frames() -> None:
    """A length counts bytes of the text and of the tool calls; attachments count by their tokens."""
    attachments = {"images": [{"mimeType": "image/png", "storageKey": "k", "tokens": 9}]}
    records = [
        MessageRecord("human", "m1", "é", at=1, attachments=attachments), MessageRecord("ai", "m2", "x", path=("sub",)),
        MessageRecord("ai", "m3", "", ({},), skill_id=7, at=2), UsageRecord("m", None, "n"),
    ]  # fmt: skip
    assert message_rows(records) == [
        MessageRow("human", "m1", "é", (), None, None, 1, attachments, 2, 9),
        MessageRow("ai", "m3", "", ({},), None, 7, 2, None, 4, 0),
    ]
