"""Shared by all use cases: ports, authorization, audit, idempotency, paging."""
