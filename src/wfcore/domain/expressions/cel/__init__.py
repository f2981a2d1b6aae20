"""CEL as closures over plain JSON values, from the parse trees of cel-python."""
