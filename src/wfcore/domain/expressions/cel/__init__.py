"""CEL as closures over plain JSON values."""
