"""Sealing: AES-256-GCM, key rotation, and the places to which seals are bound."""

import base64

import pytest

from wfcore.adapters.sealing import Sealing
from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.sealing import Unsealable

OLD, NEW = b"o" * 32, b"n" * 32


def sealing(*keys: bytes) -> Sealing:
    return Sealing(lambda: keys)


@pytest.mark.parametrize("text", ["", "s3cret", "grüße 🔑", "x" * 8192])
def test_a_seal_opens_in_its_place(text: str) -> None:
    """The text is returned; the seal shows nothing of it, and no two seals are equal."""
    sealer = sealing(OLD)
    first, second = sealer.seal(text, "org", "id", "f"), sealer.seal(text, "org", "id", "f")
    assert first != second
    assert sealer.open(first, "org", "id", "f") == sealer.open(second, "org", "id", "f") == text
    raw = base64.urlsafe_b64decode(first.split(".")[2])
    assert not text or text.encode() not in raw
    assert len(raw) == 12 + len(text.encode()) + 16


@pytest.mark.parametrize("place", [("org", "id", "g"), ("org", "idf"), ("o", "rg", "id", "f"), ("org", "id", "f", "")])
def test_a_seal_opens_in_no_other_place(place: tuple[str, ...]) -> None:
    """In another organization, row or field, or with other boundaries, a seal does not open."""
    sealed = sealing(OLD).seal("s", "org", "id", "f")
    with pytest.raises(Unsealable):
        sealing(OLD).open(sealed, *place)


def test_no_altered_seal_opens() -> None:
    """An altered byte, a shorter text, another version or an invalid seal raises Unsealable."""
    sealer = sealing(OLD)
    sealed = sealer.seal("s", "p")
    head, _, body = sealed.rpartition(".")
    raw = base64.urlsafe_b64decode(body)
    flipped = [raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :] for at in range(len(raw))]
    bodies = [base64.urlsafe_b64encode(one).decode() for one in [*flipped, raw[:-1], raw[:5], b""]]
    for bad in [*(f"{head}.{one}" for one in bodies), f"{sealed}!", "2" + sealed[1:], "", ".", "1", "1.", "1..", "x.y"]:
        with pytest.raises(Unsealable):
            sealer.open(bad, "p")


def test_keys_are_rotated() -> None:
    """The first key seals; a seal of an earlier key opens only while that key is configured."""
    before = sealing(OLD).seal("s", "p")
    both = sealing(NEW, OLD)
    after = both.seal("s", "p")
    assert both.open(before, "p") == both.open(after, "p") == sealing(NEW).open(after, "p") == "s"
    assert [sealing(NEW).has_key_for(one) for one in (before, after, "")] == [False, True, False]
    with pytest.raises(Unsealable):
        sealing(NEW).open(before, "p")


def test_without_a_key_nothing_is_sealed() -> None:
    """Sealing raises Unavailable; `knows` returns false."""
    with pytest.raises(Unavailable, match="no secret key is configured"):
        sealing().seal("s", "p")
    assert not sealing().has_key_for(sealing(OLD).seal("s", "p"))


def test_marks_depend_on_value_and_key() -> None:
    """Equal values have equal marks under one key, and other marks under another key."""
    assert sealing(OLD).fingerprint(b"a") == sealing(OLD, NEW).fingerprint(b"a")
    assert len({sealing(OLD).fingerprint(b"a"), sealing(OLD).fingerprint(b"b"), sealing(NEW).fingerprint(b"a")}) == 3


def test_marks_of_earlier_keys_are_known() -> None:
    """The first mark is that of the current key, the others those that the earlier keys have made."""
    wanted = [sealing(key).fingerprint(b"a") for key in (NEW, OLD)]
    assert list(sealing(NEW, OLD).fingerprints(b"a")) == wanted


def test_the_key_is_loaded_once_and_late() -> None:
    """Nothing is read or created before the first secret; then once."""
    asked = []

    def keys() -> list[bytes]:
        asked.append(1)
        return [OLD]

    sealer = Sealing(keys)
    assert asked == []
    sealer.open(sealer.seal("s", "p"), "p")
    assert asked == [1]
