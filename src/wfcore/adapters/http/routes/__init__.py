"""The route table, and the routes of each area."""
