"""The routes of runs: starts, lists, records, streams, approvals."""
