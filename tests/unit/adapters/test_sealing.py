"""Sealing: AES-256-GCM, keys that are replaced, and places that seals are bound to."""

import base64

import pytest

from wfcore.adapters.sealing import Sealing
from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.sealing import Unsealable

OLD, NEW = b"o" * 32, b"n" * 32


def sealing(*keys: bytes) -> Sealing:
    return Sealing(lambda: keys)


@pytest.mark.parametrize("text", ["", "s3cret", "grüße 🔑", "x" * 8192])
def test_what_is_sealed_opens_in_its_place(text: str) -> None:
    """The text comes back; its seal shows nothing of it, and no two seals are alike."""
    sealer = sealing(OLD)
    first, second = sealer.seal(text, "org", "id", "f"), sealer.seal(text, "org", "id", "f")
    assert first != second
    assert sealer.open(first, "org", "id", "f") == sealer.open(second, "org", "id", "f") == text
    raw = base64.urlsafe_b64decode(first.split(".")[2])
    assert not text or text.encode() not in raw
    assert len(raw) == 12 + len(text.encode()) + 16


@pytest.mark.parametrize("place", [("org", "id", "g"), ("org", "idf"), ("o", "rg", "id", "f"), ("org", "id", "f", "")])
def test_it_opens_in_no_other_place(place: tuple[str, ...]) -> None:
    """Moved to another organization, row or field, or cut elsewhere, a seal does not open."""
    sealed = sealing(OLD).seal("s", "org", "id", "f")
    with pytest.raises(Unsealable):
        sealing(OLD).open(sealed, *place)


def test_no_altered_seal_opens() -> None:
    """Every other byte, a shorter text, another version and what is no seal at all: Unsealable."""
    sealer = sealing(OLD)
    sealed = sealer.seal("s", "p")
    head, _, body = sealed.rpartition(".")
    raw = base64.urlsafe_b64decode(body)
    flipped = [raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :] for at in range(len(raw))]
    bodies = [base64.urlsafe_b64encode(one).decode() for one in [*flipped, raw[:-1], raw[:5], b""]]
    for bad in [*(f"{head}.{one}" for one in bodies), f"{sealed}!", "2" + sealed[1:], "", ".", "1", "1.", "1..", "x.y"]:
        with pytest.raises(Unsealable):
            sealer.open(bad, "p")


def test_keys_are_replaced() -> None:
    """The first key seals; what an earlier one sealed opens while that one is still given, and not without."""
    before = sealing(OLD).seal("s", "p")
    both = sealing(NEW, OLD)
    after = both.seal("s", "p")
    assert both.open(before, "p") == both.open(after, "p") == sealing(NEW).open(after, "p") == "s"
    assert [sealing(NEW).has_key_for(one) for one in (before, after, "")] == [False, True, False]
    with pytest.raises(Unsealable):
        sealing(NEW).open(before, "p")


def test_without_a_key_nothing_is_sealed() -> None:
    """Unavailable on sealing; a list that only asks whether a seal can be read is told that it cannot."""
    with pytest.raises(Unavailable, match="no secret key is configured"):
        sealing().seal("s", "p")
    assert not sealing().has_key_for(sealing(OLD).seal("s", "p"))


def test_marks_are_of_value_and_key() -> None:
    """Equal values have equal marks under one key, and under another key none that could be compared."""
    assert sealing(OLD).fingerprint(b"a") == sealing(OLD, NEW).fingerprint(b"a")
    assert len({sealing(OLD).fingerprint(b"a"), sealing(OLD).fingerprint(b"b"), sealing(NEW).fingerprint(b"a")}) == 3


def test_the_key_is_asked_for_once_and_late() -> None:
    """Nothing is read, or made, before the first secret; then once."""
    asked = []

    def keys() -> list[bytes]:
        asked.append(1)
        return [OLD]

    sealer = Sealing(keys)
    assert asked == []
    sealer.open(sealer.seal("s", "p"), "p")
    assert asked == [1]
