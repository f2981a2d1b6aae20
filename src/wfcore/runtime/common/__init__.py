"""What all use cases share: ports, authorization, audit, idempotency, paging."""
