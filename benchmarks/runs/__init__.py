"""Rows on runs: their interpreter, stores and dispatch, without HTTP."""
