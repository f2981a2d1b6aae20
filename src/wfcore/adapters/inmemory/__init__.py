"""The stores in memory: for tests, quick starts and simulation. What they hold dies with them."""
