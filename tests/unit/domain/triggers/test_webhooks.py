"""Inbound webhooks (Standard Webhooks 1.0.0): signatures, headers, and the input of the run."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfcore.domain.kernel.errors import Malformed
from wfcore.domain.kernel.ids import hash_secret
from wfcore.domain.triggers.webhooks import (
    MAX_SIGNATURES,
    TOLERANCE,
    BadSignature,
    Webhook,
    forwarded_headers,
    input_of,
    parse_webhook,
    read_message,
    run_id_of,
    secret_of,
    sign,
)

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID, AT, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
NOW = AT * 1000
OTHER = secret_of("k" * 43)


def headers(**more: str) -> list[tuple[str, str]]:
    given = {"id": ID, "timestamp": str(AT), "signature": SIGNATURE, **more}
    return [(f"Webhook-{name}", value) for name, value in given.items()]


class TestSignature:
    """Verification of the signature."""

    def test_the_published_example(self) -> None:
        """The specification's own message has the specification's signature, and is genuine."""
        assert sign(SECRET, ID, AT, BODY) == SIGNATURE
        assert read_message(headers(), NOW).is_genuine(SECRET, BODY)

    @pytest.mark.parametrize("off", [-TOLERANCE, 0, TOLERANCE])
    def test_a_recent_message(self, off: int) -> None:
        """A timestamp may differ by five minutes, in the past and in the future."""
        assert read_message(headers(), NOW + off * 1000).timestamp == AT

    @pytest.mark.parametrize("off", [-TOLERANCE * 1000 - 1, TOLERANCE * 1000 + 1])
    def test_a_message_that_is_not_recent(self, off: int) -> None:
        """A millisecond more is refused, in the past and in the future."""
        with pytest.raises(BadSignature):
            read_message(headers(), NOW + off)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"id": ""},
            {"timestamp": ""}, {"timestamp": "nan"}, {"timestamp": "1e9"}, {"timestamp": f"{AT}.0"},
            {"timestamp": f" {AT}"}, {"timestamp": f"0{AT}"}, {"timestamp": "9" * 400}, {"timestamp": "١٦١٤٢٦٥٣٣٠"},
            {"signature": ""}, {"signature": "v1"}, {"signature": "v1,"}, {"signature": SIGNATURE[3:]},
            {"signature": "v2" + SIGNATURE[2:]}, {"signature": "v1,ä"}, {"signature": "v1,A"}, {"signature": "v1, A=="},
        ],
    )  # fmt: skip
    def test_wrong_headers(self, wrong: dict[str, str]) -> None:
        """Wrong headers are refused before the body is read, always with the same message."""
        with pytest.raises(BadSignature) as error:
            read_message(headers(**wrong), NOW)
        assert str(error.value) == str(BadSignature())

    @pytest.mark.parametrize("id", ["a b", "ä", ".", "x" * 256])
    def test_an_id_that_is_no_idempotency_key(self, id: str) -> None:
        """The signature is verified as for any other; the error then names the header and its limit."""
        message = read_message(headers(id=id, signature=sign(SECRET, id, AT, BODY)), NOW)
        assert message.is_genuine(SECRET, BODY)
        with pytest.raises(Malformed, match="`webhook-id`: must be 1 to 255 visible ASCII characters"):
            message.check_id()

    @pytest.mark.parametrize("name", ["id", "timestamp", "signature"])
    def test_each_header_is_required_once(self, name: str) -> None:
        """A missing header and a repeated header are refused."""
        some = [pair for pair in headers() if not pair[0].endswith(name)]
        for bad in (some, [*headers(), *(pair for pair in headers() if pair[0].endswith(name))]):
            with pytest.raises(BadSignature):
                read_message(bad, NOW)

    def test_other_headers_are_ignored(self) -> None:
        """Headers that are not part of the signature do not matter, unless they are repeated names of it."""
        message = read_message([("Content-Type", "application/json"), *headers(), ("X-A", "1"), ("x-a", "2")], NOW)
        assert message.is_genuine(SECRET, BODY)

    def test_several_signatures(self) -> None:
        """One genuine signature of several is enough; only the first `MAX_SIGNATURES` are checked."""
        others = f"v1a,xyz {sign(OTHER, ID, AT, BODY)} , v1,?"
        assert read_message(headers(signature=f"{others} {SIGNATURE}"), NOW).is_genuine(SECRET, BODY)
        assert not read_message(headers(signature=others), NOW).is_genuine(SECRET, BODY)
        many = " ".join([sign(OTHER, ID, AT, BODY)] * MAX_SIGNATURES)
        assert not read_message(headers(signature=f"{many} {SIGNATURE}"), NOW).is_genuine(SECRET, BODY)

    @given(st.integers(0, 2), st.binary(max_size=8))
    def test_no_part_of_a_message_can_be_changed(self, part: int, change: bytes) -> None:
        """The signature is not genuine for another id, time, body or secret."""
        text = change.hex() or "00"
        changed: list[dict[str, Any]] = [{"id": ID + text}, {"timestamp": str(AT + 1 + len(change))}, {}]
        body = BODY + (change or b" ") if part == 2 else BODY
        assert not read_message(headers(**changed[part]), NOW).is_genuine(SECRET, body)
        assert not read_message(headers(), NOW).is_genuine(OTHER, BODY)

    def test_signed_bytes_are_unambiguous(self) -> None:
        """If the same signed bytes are split at another dot, the body is refused."""
        whole = sign(SECRET, f"{ID}.{AT}", AT + 1, BODY)
        moved = read_message(headers(signature=whole), NOW)
        body = f"{AT + 1}.".encode() + BODY
        assert moved.is_genuine(SECRET, body)
        assert not body.startswith((b"{", b"["))
        for value in (1_614_265_330.5, 7, "x", None, True):
            with pytest.raises(Malformed):
                input_of(value, [])


class TestSecret:
    """The secret of a sender."""

    def test_form(self) -> None:
        """The secret is `whsec_` and base64 of 24 to 64 bytes; `repr` shows neither id nor secret."""
        assert 24 <= len(base64.b64decode(OTHER.removeprefix("whsec_"), validate=True)) <= 64
        webhook = Webhook("i" * 43, OTHER)
        assert parse_webhook(webhook.text) == webhook
        assert webhook.path == f"/webhooks/{webhook.id}"
        assert webhook.digest == hash_secret(webhook.id)
        assert webhook.id not in repr(webhook)
        assert OTHER not in repr(webhook)


class TestInput:
    """The input of the run."""

    def test_forwarded_headers(self) -> None:
        """Names are in lower case, repeated headers are joined; connection headers and credentials are left out."""
        sent = [
            ("Content-Type", "application/json"), ("X-Event", "a"), ("x-event", "b"), ("webhook-id", ID),
            ("Authorization", "s"), ("Cookie", "s"), ("Set-Cookie", "s"), ("Proxy-Authorization", "s"), ("Host", "h"),
            ("webhook-signature", "s"), ("X-Hub-Signature-256", "s"), ("X-Api-Key", "s"), ("X-Gitlab-Token", "s"),
            ("X-Client-Secret", "s"), ("X-Password", "s"), ("Apikey", "s"), ("Content-Length", "9"), ("TE", "x"),
        ]  # fmt: skip
        wanted = {"content-type": "application/json", "x-event": "a, b", "webhook-id": ID}
        assert forwarded_headers(sent) == wanted
        assert input_of([1], sent) == {"body": [1], "headers": wanted}

    def test_the_run_id_of_a_message(self) -> None:
        """It is the same for every delivery of a message, and differs by message, webhook and workflow."""
        here, there = Webhook("a", SECRET), Webhook("b", SECRET)
        ids = {run_id_of(here, 7, "m"), run_id_of(here, 7, "n"), run_id_of(here, 8, "m"), run_id_of(there, 7, "m")}
        assert len(ids) == 4
        assert run_id_of(here, 7, "m") == run_id_of(Webhook("a", OTHER), 7, "m")
        assert run_id_of(here, 7, "m").startswith("webhook-7-")
