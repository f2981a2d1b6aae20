"""The states of a regular expression: what a character of a text can cost, and the memory that a pattern takes.

The engines take linear time, but linear in the states too: where a deterministic automaton would be too large, each
character visits all states that are possible then.
"""

from typing import Any, Final

from wfcore.domain.kernel.recent import cached_texts

REGEX_BYTES: Final = 1 << 20
"""The most memory of one compiled pattern."""
_BYTES_PER_STATE: Final = 32
_LEAST_BYTES: Final = 1 << 10


@cached_texts(small=200, many=1_024, few=32)
def states_of(pattern: str) -> int:
    """An upper bound of the states of a pattern; 1 for one that is not valid."""
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.log_errors = False
    try:
        return int(re2.compile(pattern, options).programsize)
    except re2.error:
        return _bytes_of(pattern) // _BYTES_PER_STATE or 1


def _bytes_of(pattern: str) -> int:
    """The memory of a pattern of ECMA-262, to the next power of two; 0 for one that is not valid or takes too much."""
    import jsonschema_rs

    most = _LEAST_BYTES
    while most <= REGEX_BYTES:
        try:
            jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=regex_options(most, most))
        except ValueError:
            most *= 2
        else:
            return most
    return 0


def regex_options(most: int, cached: int) -> Any:
    """Options for patterns of at most `most` bytes each, and `cached` bytes of what a search keeps."""
    import jsonschema_rs

    return jsonschema_rs.RegexOptions(size_limit=most, dfa_size_limit=cached)
