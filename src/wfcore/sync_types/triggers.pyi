# Written by tests/typing/write_sync_types.py

from collections.abc import Collection

from wfcore.runtime.common.run_views import RunView
from wfcore.runtime.triggers.webhook_deliveries import ReadBody

class SyncDeliveries:
    """Receives the messages of senders."""

    def receive(self, id: str, headers: Collection[tuple[str, str]], body: ReadBody) -> RunView:
        """Start the run of a message to the webhook with this id, or return the run that the same message started."""
