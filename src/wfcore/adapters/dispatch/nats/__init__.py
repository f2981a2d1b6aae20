"""Dispatch and notifications over NATS and JetStream, for installations of many servers and workers."""
