"""The contract of event sinks for the hub of one process."""

from wfcore.adapters.dispatch.event_hub import EventHub
from wfcore.ports.providers import EventSink
from wfcore.testing.contracts.events import EventsContract


class TestEventHub(EventsContract):
    def open_sink(self) -> EventSink:
        return EventHub()
