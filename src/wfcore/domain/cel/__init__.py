"""CEL in closures: cel-python parses, these compute on plain JSON values. `wfcore.domain.expressions` is the door."""
