# Written by tests/typing/write_sync_types.py

from typing import Unpack

from wfcore.api.contexts import (
    AssistantContext,
    AssistantContextFields,
    ContextItemFields,
    CreateContextItem,
    PatchContextItem,
    SkillContext,
    SkillContextFields,
)
from wfcore.api.memories import (
    CreateMemory,
    CreateMemoryFields,
    PatchMemory,
    PatchMemoryFields,
    SearchMemories,
    SearchMemoriesFields,
)
from wfcore.api.runs import AttachmentsDto
from wfcore.domain.agents.context_items import ContextItem
from wfcore.domain.json.values import UnsetType
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.runtime.agents.attachments import Upload
from wfcore.runtime.agents.contexts import ContextView
from wfcore.runtime.agents.conversations import ConversationView
from wfcore.runtime.agents.memories import MemoryView
from wfcore.runtime.common.bodies import Tree
from wfcore.sync_types.common import SyncRecordServiceBase

class SyncMemories:
    """Use cases on the memories of a skill. Checks run in the order: scope, body, skill, memory."""

    def create(
        self,
        me: Principal,
        skill: int,
        body: CreateMemory | Tree | None = None,
        *,
        key: str | None = None,
        **fields: Unpack[CreateMemoryFields],
    ) -> MemoryView:
        """Create a memory: `memory`, and optionally `metadata` and the `user_id` of the end user that it concerns."""

    def get(self, me: Principal, skill: int, id: str) -> MemoryView:
        """One memory. NotFound also for a memory of another skill."""

    def page(
        self, me: Principal, skill: int, *, limit: int = 25, after: str | None = None, user_id: str | None = None
    ) -> list[MemoryView]:
        """In order of creation, after the memory with id `after`; with `user_id` only those of that end user."""

    def search(
        self,
        me: Principal,
        skill: int,
        body: SearchMemories | Tree | None = None,
        **fields: Unpack[SearchMemoriesFields],
    ) -> list[MemoryView]:
        """Memories that share words with the `query`, best first: at most `limit`, of end user `user_id` if given."""

    def patch(
        self,
        me: Principal,
        skill: int,
        id: str,
        body: PatchMemory | Tree | None = None,
        *,
        update_mask: str | None = None,
        if_match: str | None = None,
        **fields: Unpack[PatchMemoryFields],
    ) -> MemoryView:
        """Change the fields in `update_mask`, such as `memory,metadata.tags`; without a mask the given fields."""

    def delete(self, me: Principal, skill: int, id: str, *, if_match: str | None = None) -> MemoryView:
        """Delete the memory permanently. Returns it as it was. A second call is NotFound."""

class SyncAttachments:
    """Images and texts in the bodies of starts and resumes."""

    def upload(self, me: Principal, data: bytes, media_type: str | None = None) -> Upload:
        """Store an image (PNG, JPEG, GIF, WebP) or a text in UTF-8 for bodies of the same organization."""

    def save(self, me: Principal, attachments: AttachmentsDto | UnsetType) -> dict[str, JSON]:
        """Store the attachments of a validated body. Returns them as a field of the expression variable `run`, or {}."""

class SyncContextItems(SyncRecordServiceBase[ContextItem]):
    """The context items of the caller's organization."""

    def create(
        self,
        me: Principal,
        body: CreateContextItem | Tree | None = None,
        *,
        key: str | None = None,
        **fields: Unpack[ContextItemFields],
    ) -> ContextItem:
        """Create a context item. `key` is an Idempotency-Key: the same key and body return the same response."""

    def patch(
        self,
        me: Principal,
        id: str,
        body: PatchContextItem | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[ContextItemFields],
    ) -> ContextItem:
        """Change the given fields. An outdated ETag `if_match` is a Conflict."""

class SyncContexts:
    """Composes contexts. A skill's context requires use of the skill; that of its draft also requires manage."""

    def compose(
        self, me: Principal, skill: int, body: SkillContext | Tree | None = None, **fields: Unpack[SkillContextFields]
    ) -> ContextView:
        """The context that a run of this skill by this caller would send now (interface, context composition)."""

    def assistant(
        self, me: Principal, body: AssistantContext | Tree | None = None, **fields: Unpack[AssistantContextFields]
    ) -> ContextView:
        """The context that a run of the assistant by this caller would send now. Errors as for `compose`."""

class SyncConversations:
    """The conversations of the caller's organization that the caller can see."""

    def page(
        self, me: Principal, skill: int = 0, *, limit: int = 25, before: tuple[int, int] | None = None
    ) -> list[ConversationView]:
        """Threads, the latest first, each with its newest messages; only those after the `place` `before`."""

    def get(self, me: Principal, skill: int, thread_id: str, *, before: int | None = None) -> ConversationView:
        """One thread with its newest messages, all of them unless there are very many; with `before`, older ones."""

    def delete(self, me: Principal, skill: int, thread_id: str, *, if_match: str | None = None) -> ConversationView:
        """Delete the caller's own conversation in this thread. Returns it as it was. Journals of runs are kept."""
