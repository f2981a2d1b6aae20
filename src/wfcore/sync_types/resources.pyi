# Written by tests/typing/write_sync_types.py

from typing import Unpack

from wfcore.api.management import (
    CreateInterface,
    CreateInterfaceFields,
    PatchInterface,
    PatchInterfaceFields,
    RollbackBody,
    RollbackFields,
    TransferBody,
    TransferFields,
)
from wfcore.api.resources import (
    CreateSkill,
    CreateSkillFields,
    CreateWorkflow,
    CreateWorkflowFields,
    DeploySkill,
    DeploySkillFields,
    PatchSkill,
    PatchSkillFields,
    PatchWorkflow,
    PatchWorkflowFields,
    Supervision,
    SupervisionFields,
    ToggleBody,
    ToggleFields,
)
from wfcore.domain.channels.interfaces import Interface
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.differences import Difference
from wfcore.domain.triggers.schedule import Firing
from wfcore.domain.triggers.webhooks import Webhook
from wfcore.runtime.common.bodies import Tree
from wfcore.runtime.common.run_views import RunView
from wfcore.runtime.resources.base import DeployedVariation, ResourceView
from wfcore.runtime.resources.interfaces import SignedInterface
from wfcore.runtime.resources.ownership import AccessExplanation
from wfcore.runtime.resources.schedules import ScheduledWorkflow, ScheduleView
from wfcore.runtime.resources.variations import VariationView

class SyncInterfaces:
    """All use cases require the grant `manage` on the workflow, whose number follows the principal."""

    def create(
        self,
        me: Principal,
        workflow: int,
        body: CreateInterface | Tree | None = None,
        *,
        key: str | None = None,
        if_match: str | None = None,
        **fields: Unpack[CreateInterfaceFields],
    ) -> Interface:
        """Add a row. `key` is an Idempotency-Key: the same key and body return the same response."""

    def page(self, me: Principal, workflow: int, *, limit: int = 25, after: str = "") -> list[Interface]:
        """By id, ascending, ids greater than `after`."""

    def get(self, me: Principal, workflow: int, id: str) -> Interface:
        """One row. NotFound for an unknown id."""

    def patch(
        self,
        me: Principal,
        workflow: int,
        id: str,
        body: PatchInterface | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[PatchInterfaceFields],
    ) -> Interface:
        """Replace the `config`; the kind cannot change."""

    def delete(self, me: Principal, workflow: int, id: str, *, if_match: str | None = None) -> Interface:
        """Delete one row. Returns it as it was."""

    def clear(self, me: Principal, workflow: int, *, if_match: str | None = None) -> int:
        """Delete all rows. Returns their number (interface, Remove every interface from a workflow)."""

    def secret(self, me: Principal, workflow: int, id: str) -> SignedInterface:
        """The secret that signs the messages of a team chat and the responses to it."""

    def rotate_secret(self, me: Principal, workflow: int, id: str, *, if_match: str | None = None) -> SignedInterface:
        """Replace the secret; messages signed with the old one are refused. Conflict `no_secret` as for `secret`."""

class SyncVariationUseCases:
    """Reads variations of one kind of resource."""

    def variation(self, me: Principal, id: int, variation_id: str) -> VariationView:
        """One variation with its content. A draft requires manage: Forbidden. NotFound for an unknown one."""

    def diff(self, me: Principal, id: int, from_: str = ..., to: str = ...) -> Difference:
        """How two variations differ: each is `active`, `draft` or an id. A draft requires manage: Forbidden."""

class SyncOwnershipUseCases:
    """An ownership transfer takes effect when it is accepted (interface, PendingOwnershipTransfer)."""

    def transfer_ownership(
        self,
        me: Principal,
        id: int,
        body: TransferBody | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[TransferFields],
    ) -> ResourceView:
        """The owner offers the ownership to a member, by `userId` or `email`. Conflict while a transfer is pending."""

    def cancel_transfer(self, me: Principal, id: int, *, if_match: str | None = None) -> ResourceView:
        """The owner withdraws the transfer."""

    def decline_transfer(self, me: Principal, id: int, *, if_match: str | None = None) -> ResourceView:
        """The pending owner declines the transfer."""

    def accept_transfer(self, me: Principal, id: int, *, if_match: str | None = None) -> ResourceView:
        """The pending owner accepts the transfer and becomes the owner."""

    def explain_access(self, me: Principal, id: int, user_id: str | None = None) -> AccessExplanation:
        """All grants of the resource, or the access of this member and its grants. NotFound for an unknown member."""

class SyncResourceUseCases(SyncOwnershipUseCases, SyncVariationUseCases):
    """The lifecycle that workflows and skills share. Checks run in the order: scope, body, resource."""

    def get(self, me: Principal, id: int, view: str = "active") -> ResourceView:
        """One resource with its variation. View `draft` requires manage; it shows the active one without a draft."""

    def page(
        self, me: Principal, *, limit: int = 25, after: int = 0, status: str | None = None, query: str | None = None
    ) -> list[ResourceView]:
        """Resources that the principal can use or manage, by id ascending; deleted ones only with that `status`."""

    def rollback(
        self,
        me: Principal,
        id: int,
        body: RollbackBody | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[RollbackFields],
    ) -> ResourceView:
        """Deploy the variation `variationId` again, with the checks of a deploy. A pending draft stays."""

    def variations(
        self, me: Principal, id: int, *, limit: int = 25, before: str | None = None
    ) -> list[DeployedVariation]:
        """The variations that were deployed, latest deployment first, older than the one with id `before`."""

    def delete(self, me: Principal, id: int, *, if_match: str | None = None) -> ResourceView:
        """Soft delete. A second call changes nothing."""

    def restore(self, me: Principal, id: int, *, if_match: str | None = None) -> ResourceView:
        """Undo a delete; a schedule stays disabled."""

    def discard_draft(self, me: Principal, id: int, *, if_match: str | None = None) -> ResourceView:
        """Delete the draft."""

    def validate(self, me: Principal, body: Tree) -> list[Issue]:
        """Every issue of an unsaved body, including those that only prevent a deploy. Writes nothing."""

class SyncSkills(SyncResourceUseCases):
    """Skills, the interface's scopes (`/api/v1/skills`). Their content is in the same body as name and access."""

    def create(
        self,
        me: Principal,
        body: CreateSkill | Tree | None = None,
        *,
        key: str | None = None,
        **fields: Unpack[CreateSkillFields],
    ) -> ResourceView:
        """Create a skill in state `draft`, as `Workflows.create` creates a workflow."""

    def patch(
        self,
        me: Principal,
        id: int,
        body: PatchSkill | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[PatchSkillFields],
    ) -> ResourceView:
        """Change fields of the create body; content changes the draft. An outdated ETag `if_match` is a Conflict."""

    def deploy(
        self,
        me: Principal,
        id: int,
        body: DeploySkill | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[DeploySkillFields],
    ) -> ResourceView:
        """Publish the draft, if there is one. `Invalid`, with every issue, when it cannot run."""

    def supervise(
        self,
        me: Principal,
        id: int,
        body: Supervision | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[SupervisionFields],
    ) -> ResourceView:
        """Replace the supervision links in the draft; an absent field becomes empty. Both are content of a skill."""

class SyncWebhookUseCases:
    """Both require manage of the workflow and the scope to write, because the secret can start runs."""

    def webhook(self, me: Principal, id: int) -> Webhook:
        """The workflow's webhook, created by the first call."""

    def rotate_webhook(self, me: Principal, id: int, *, if_match: str | None = None) -> Webhook:
        """Replace the secret; messages signed with the old one are refused. The url stays."""

class SyncScheduleUseCases:
    """The schedules of workflows. `toggle` enables and disables one."""

    def schedules(self, me: Principal, *, limit: int = 25, after: int = 0, count: int = 10) -> list[ScheduledWorkflow]:
        """The active workflows with a schedule that the principal can use or manage, by id ascending."""

    def next_runs(self, me: Principal, id: int, *, count: int = 10) -> list[Firing]:
        """The next times of the active variation's schedule, enabled or not; at most 100."""

    def schedule(self, me: Principal, id: int) -> ScheduleView:
        """Its state: the next slot or why there is none, the latest run, the missed slots."""

class SyncWorkflows(SyncScheduleUseCases, SyncWebhookUseCases, SyncResourceUseCases):
    """Workflows (interface, `/api/v1/workflows`). `interfaces` has the use cases of their interface rows."""

    interfaces: SyncInterfaces

    def create(
        self,
        me: Principal,
        body: CreateWorkflow | Tree | None = None,
        *,
        key: str | None = None,
        **fields: Unpack[CreateWorkflowFields],
    ) -> ResourceView:
        """Create a workflow in state `draft`, owned by the caller; by default the organization can use and manage it."""

    def patch(
        self,
        me: Principal,
        id: int,
        body: PatchWorkflow | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[PatchWorkflowFields],
    ) -> ResourceView:
        """Change fields of the create body; content changes the draft. An outdated ETag `if_match` is a Conflict."""

    def toggle(
        self,
        me: Principal,
        id: int,
        body: ToggleBody | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[ToggleFields],
    ) -> ResourceView:
        """Toggle the schedule, or set it to `isEnabled`."""

    def runs(self, me: Principal, id: int, *, limit: int = 25, before: int | None = None) -> list[RunView]:
        """Its runs, newest first, older than the run with the `row.key` `before`. Requires use of the workflow."""
