"""Copies of whole databases, between both stores: row by row, in one transaction, verified before it commits."""
