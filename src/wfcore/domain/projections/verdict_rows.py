"""The verdict on one case of an evaluation, as it is stored."""

from collections.abc import Mapping

import attrs

from wfcore.domain.kernel.json_type import JSON


@attrs.frozen
class VerdictRow:
    """The verdict on one case of a skill. `content` is the fingerprint of the content that was evaluated; `at` is in
    epoch milliseconds.

    `passed` is None as long as the run has not ended. `body` has `checks`, `output`, `toolCalls`, `cost` and `error`.
    """

    skill_id: int
    content: str
    evaluation_id: str
    case_id: str
    run_id: str
    at: int
    passed: bool | None = None
    body: Mapping[str, JSON] = attrs.field(factory=dict)
