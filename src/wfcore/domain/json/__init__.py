"""JSON: parsing of bytes, the codec, JSON Schema."""
