"""Canonical text forms: each value has one spelling, and every other one is refused."""

import hashlib
from datetime import UTC, datetime, timedelta, timezone
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfcore.domain.kernel import ids

UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"
SECRET = "a" * 43


class TestSlugs:
    """Interface, Workflow: a URL-safe slug."""

    @pytest.mark.parametrize(
        ("name", "slug"),
        [
            ("Refund requests", "refund-requests"),
            ("  Größe & Übermut ", "grosse-ubermut"),
            ("R&amp;D", "r-amp-d"),
            ("x_y--z", "x-y-z"),
            ("a\n\x00b", "a-b"),
        ],
    )
    def test_name(self, name: str, slug: str) -> None:
        """A name becomes lower case words with single hyphens; no entity of HTML is decoded."""
        assert ids.slugify_name(name, "workflow", 7) == slug

    @pytest.mark.parametrize("name", ["", "!!!", "---", "\U0001f600", "\u200b"])
    def test_nothing_left(self, name: str) -> None:
        """A name without a usable character gives the kind and the id; the wire calls a skill a scope."""
        assert ids.slugify_name(name, "workflow", 7) == "workflow-7"
        assert ids.slugify_name(name, "skill", 12) == "scope-12"

    @given(st.text(max_size=200))
    def test_form(self, name: str) -> None:
        """For any name, the slug is 1 to 80 of `[a-z0-9-]` without a hyphen at either end."""
        slug = ids.slugify_name(name, "workflow", 1)
        assert 1 <= len(slug) <= ids.SLUG_LENGTH
        assert set(slug) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
        assert slug == slug.strip("-")

    def test_cut(self) -> None:
        """A slug that is cut after a hyphen does not end with it."""
        assert ids.slugify_name("a" * 79 + " tail", "workflow", 1) == "a" * 79

    def test_candidates(self) -> None:
        """A taken slug is followed by -2, -3, ..."""
        assert list(islice(ids.slug_candidates("refunds"), 4)) == [
            "refunds",
            "refunds-2",
            "refunds-3",
            "refunds-4",
        ]

    def test_long_candidates(self) -> None:
        """The base is cut so that the suffix fits within the bound; no two hyphens follow each other."""
        base = "a" * 76 + "-bcd"
        found = list(islice(ids.slug_candidates(base), 1200))
        assert found[1:3] == ["a" * 76 + "-b-2", "a" * 76 + "-b-3"]
        assert found[9] == "a" * 76 + "-10"
        assert max(map(len, found)) <= ids.SLUG_LENGTH
        assert len(set(found)) == len(found)


class TestNumbersAndUuids:
    """Ids in URL paths and bodies."""

    @pytest.mark.parametrize("text", ["1", "10", "9" * 16])
    def test_canonical_id(self, text: str) -> None:
        """A positive number in its canonical spelling is an id."""
        assert ids.parse_id(text) == int(text)

    @pytest.mark.parametrize(
        "text",
        ["", "0", "01", "-1", "+1", "1\n", "\n1", " 1", "1.0", "1e3", "1_0", "٣", "1" * 17, "1" * 5000],
    )
    def test_other_spelling(self, text: str) -> None:
        """Every other spelling is refused: line feed, leading zero, other digits, more than 16 digits."""
        assert ids.parse_id(text) is None

    def test_uuid(self) -> None:
        """The canonical text of a UUID is accepted."""
        assert ids.is_uuid(UUID)

    @pytest.mark.parametrize(
        "text",
        [
            "",
            UUID.upper(),
            UUID.replace("-", ""),
            "{" + UUID + "}",
            "urn:uuid:" + UUID,
            UUID + "\n",
            UUID[:-1],
            UUID[:-1] + "g",
            UUID[:-1] + "\uff10",
        ],
    )
    def test_other_uuid(self, text: str) -> None:
        """Other spellings that `uuid.UUID()` accepts are refused."""
        assert not ids.is_uuid(text)

    @pytest.mark.parametrize("text", ["r", "0190-f", '~!"\\', "x" * 255])
    def test_run_id(self, text: str) -> None:
        """1 to 255 visible ASCII characters name a run."""
        assert ids.is_run_id(text)

    @pytest.mark.parametrize("text", ["", "x" * 256, "a b", "a\n", "\x7f", "\x1f", "é", "a\u2028", ".", ".."])
    def test_other_text_is_not_a_run_id(self, text: str) -> None:
        """An empty or longer text, blanks, control characters and non-ASCII characters are refused."""
        assert not ids.is_run_id(text)


class TestEmails:
    """E-mails are ASCII, at most 254 characters, lowercased."""

    @pytest.mark.parametrize(
        "text", ["a@x.org", "Ann.O'Neill+wf@Mail.Example.ORG", "a@localhost", "a@" + "b" * 63 + ".org"]
    )
    def test_address(self, text: str) -> None:
        """A plain address is valid; its normal form is in lower case and normalizes to itself."""
        assert ids.normalize_email(text) == text.lower()
        assert ids.normalize_email(text.lower()) == text.lower()

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "a",
            "@x.org",
            "a@",
            "a@b@x.org",
            "a b@x.org",
            " a@x.org",
            "a@x.org\n",
            ".a@x.org",
            "a.@x.org",
            "a..b@x.org",
            "a@x..org",
            "a@-x.org",
            "a@x-.org",
            "a@x_y.org",
            "a@[127.0.0.1]",
            '"a"@x.org',
            "a,b@x.org",
            "é@x.org",
            "a@é.org",
            "a\u212a@x.org",
            "a\x00@x.org",
            "l" * 65 + "@x.org",
            "a@" + "b" * 64 + ".org",
        ],
    )
    def test_other_text_is_not_an_address(self, text: str) -> None:
        """A part that is missing, doubled, quoted, too long or not ASCII is refused; blanks are not trimmed."""
        assert ids.normalize_email(text) is None

    def test_length(self) -> None:
        """An address has at most 254 characters."""
        domain = ".".join(["b" * 60] * 4)
        assert ids.normalize_email("a" * (253 - len(domain)) + "@" + domain) is not None
        assert ids.normalize_email("a" * (254 - len(domain)) + "@" + domain) is None

    @given(st.text(max_size=20), st.text(max_size=20))
    def test_no_collision(self, one: str, other: str) -> None:
        """Two texts have the same normal form only if they differ at most in ASCII case."""
        first, second = ids.normalize_email(one + "@x.org"), ids.normalize_email(other + "@x.org")
        assert first is None or second is None or (first == second) == (one.lower() == other.lower())
        assert first is None or one.isascii()


class TestTokens:
    """Interface, Authentication: `svc_<org_uuid>_<prefix>_<secret>`."""

    def test_round_trip(self) -> None:
        """A formatted token is parsed into the same parts."""
        text = ids.format_token(UUID, "Ab3dE6gH", SECRET)
        assert text == f"svc_{UUID}_Ab3dE6gH_{SECRET}"
        assert ids.parse_token(text) == ids.TokenParts(UUID, "Ab3dE6gH", SECRET)

    @pytest.mark.parametrize(
        "text",
        [
            "",
            f"svc_{UUID}_Ab3dE6gH_{SECRET}\n",
            f"svc_{UUID}_Ab3dE6gH_{SECRET}a",
            f"svc_{UUID}_Ab3dE6gH_{SECRET[1:]}",
            f"svc_{UUID}_Ab3dE6g_{SECRET}",
            f"svc_{UUID}_Ab3dE6g-_{SECRET}",
            f"svc_{UUID}_Ab3dE6gH_{SECRET[1:]}é",
            f"svc_{UUID.upper()}_Ab3dE6gH_{SECRET}",
            f"svc_{UUID.replace('-', '')}_Ab3dE6gH_{SECRET}",
            f"SVC_{UUID}_Ab3dE6gH_{SECRET}",
            f" svc_{UUID}_Ab3dE6gH_{SECRET}",
        ],
    )
    def test_other_text(self, text: str) -> None:
        """Any other text is not a token."""
        assert ids.parse_token(text) is None

    @pytest.mark.parametrize(
        "parts", [("x", "Ab3dE6gH", SECRET), (UUID, "short", SECRET), (UUID, "Ab3dE6gH", SECRET + "!")]
    )
    def test_bad_parts(self, parts: tuple[str, str, str]) -> None:
        """Wrong parts are an error, and the error does not show them."""
        with pytest.raises(ValueError, match="not the parts of a token") as caught:
            ids.format_token(*parts)
        assert SECRET not in str(caught.value)

    def test_secret_stays_hidden(self) -> None:
        """The `repr` of a token in a log or a traceback does not show the secret."""
        assert SECRET not in repr(ids.TokenParts(UUID, "Ab3dE6gH", SECRET))

    def test_hash(self) -> None:
        """The stored hash is the SHA-256 of the secret; only that secret matches, and no text raises."""
        digest = ids.hash_secret(SECRET)
        assert digest == hashlib.sha256(SECRET.encode()).hexdigest()
        assert ids.secret_matches(SECRET, digest)
        assert not ids.secret_matches("b" + SECRET[1:], digest)
        assert not ids.secret_matches(SECRET, "é")

    def test_alphabet(self) -> None:
        """43 characters of the alphabet carry 256 bits."""
        assert len(set(ids.ALPHABET)) ** 43 > 2**256
        assert ids.parse_token(ids.format_token(UUID, ids.ALPHABET[:8], ids.ALPHABET[-43:]))


class TestInstants:
    """Interface, Resources: ISO 8601 with milliseconds and Z."""

    def test_utc(self) -> None:
        """Any zone is written as UTC, truncated to milliseconds."""
        there = timezone(timedelta(hours=5, minutes=30))
        assert ids.iso(datetime(2026, 1, 31, 9, 30, 0, 123999, UTC)) == "2026-01-31T09:30:00.123Z"
        assert ids.iso(datetime(2026, 1, 31, 9, 30, tzinfo=there)) == "2026-01-31T04:00:00.000Z"

    def test_naive(self) -> None:
        """A naive datetime is an error."""
        with pytest.raises(ValueError, match="not an instant"):
            ids.iso(datetime(2026, 1, 31))  # noqa: DTZ001
