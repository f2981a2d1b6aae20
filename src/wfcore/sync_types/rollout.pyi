# Written by tests/typing/write_sync_types.py

from typing import Unpack

from wfcore.api.repairs import MoveFields, MoveRuns
from wfcore.api.run_graphs import TestNode, TestNodeFields
from wfcore.api.variations import ProposalFields, ProposeChange
from wfcore.domain.resources.access import Principal
from wfcore.domain.run.node_trial import NodeTrial
from wfcore.runtime.common.bodies import Tree
from wfcore.runtime.resources.base import ResourceView
from wfcore.runtime.rollout.impacts import Impact
from wfcore.runtime.rollout.moves import MoveOutcome
from wfcore.runtime.rollout.proposals import Proposal
from wfcore.sync_types.resources import SyncWorkflows

class SyncRolloutWorkflows(SyncWorkflows):
    """The use cases of workflows, with those that also concern their runs."""

    def move_runs(
        self,
        me: Principal,
        id: int,
        body: MoveRuns | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[MoveFields],
    ) -> list[MoveOutcome]:
        """Move waiting runs to the active variation, one by one, where they fit: those named, or all of them."""

    def deploy(self, me: Principal, id: int, *, if_match: str | None = None) -> ResourceView:
        """Publish the draft, if there is one. `Invalid`, with every issue, when it cannot run."""

    def impact(self, me: Principal, id: int) -> Impact:
        """What a deploy of the draft would change; without a draft, what is deployed. Requires manage."""

    def test_node(
        self, me: Principal, id: int, node: str, body: TestNode | Tree | None = None, **fields: Unpack[TestNodeFields]
    ) -> NodeTrial:
        """What one node of the draft gives on this input and these outputs of other nodes; without a draft, of the
        active variation. Requires manage."""

    def propose(
        self, me: Principal, id: int, body: ProposeChange | Tree | None = None, **fields: Unpack[ProposalFields]
    ) -> Proposal:
        """A change of the draft, or without one of the active variation, that a model makes of a request in words."""
