"""The expression language (CEL) and templates."""
