"""Text for a model: estimates, marks and blocks of data."""

import pytest

from wfcore.domain.agents.context_text import Fact, boundary, data_blocks, fitting, size_tokens, tokens


class TestText:
    """Estimates and marks."""

    @pytest.mark.parametrize(("text", "estimate"), [("", 0), ("abc", 1), ("abcd", 2), ("日本語", 3), ("\U0001f600", 2)])
    def test_three_bytes_are_a_token(self, text: str, estimate: int) -> None:
        """The estimate counts bytes of UTF-8, rounded up."""
        assert tokens(text) == estimate

    def test_a_mark_is_never_in_the_text(self) -> None:
        """The same texts have the same mark; other texts, other splits and a text with the mark in it have others."""
        mark = boundary(["a", "b"])
        assert mark == boundary(["a", "b"])
        assert len({mark, boundary(["a", "c"]), boundary(["ab", ""]), boundary(["a", mark]), boundary([])}) == 5


class TestFacts:
    """Data in blocks."""

    def test_the_head(self) -> None:
        """The title is left out if it is empty, and always on one line."""
        assert Fact("memory", "m1", "tea").head == 'memory {"id":"m1"}'
        assert Fact("contextItem", "c1", "x", "a\nb").head == 'contextItem {"id":"c1","title":"a\\nb"}'

    def test_blocks(self) -> None:
        """A notice precedes the blocks; without facts there is neither."""
        assert data_blocks([]) == []
        notice, block = data_blocks([Fact("memory", "m1", "Likes tea")])
        mark = boundary(['memory {"id":"m1"}', "Likes tea"])
        assert mark in notice
        assert block == f'<{mark} memory {{"id":"m1"}}>\nLikes tea\n</{mark}>'
        assert tokens(block) <= Fact("memory", "m1", "Likes tea").tokens

    def test_facts_that_fit(self) -> None:
        """A short fact after a long one may fit."""
        short, long = Fact("memory", "a", "x"), Fact("memory", "b", "x" * 999)
        assert fitting([short, long, short], 2 * short.tokens) == ([short, short], [long])

    def test_sizes(self) -> None:
        """The estimate for a size is that of a text of this size."""
        assert size_tokens(4) == tokens("abcd") == 2
