"""JWT access tokens (interface, Authentication 2; RFC 9068, RFC 8725): valid ones, and all kinds of invalid ones."""

import hmac
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from issuing import (
    AUDIENCE,
    EC,
    FOREIGN,
    ISSUER,
    NOW,
    ORG,
    PRIVATE,
    RSA,
    b64,
    claims,
    header,
    jwk,
    jwks,
    signed,
    token,
)
from joserfc.jwk import ECKey, OctKey, RSAKey

from wfcore.adapters.oauth import AccessTokens, ClaimNames
from wfcore.adapters.oauth.cache import COOL_DOWN, KeyCache
from wfcore.adapters.oauth.keys import ALGORITHMS, choose, read_keys
from wfcore.domain.resources.access import TOKEN_SCOPES
from wfcore.ports.identity import Identity
from wfcore.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

ELSE = "someone-else"
SURROGATE = json.dumps(claims()).replace('"ann"', '"ann\\ud800"').encode()


def verifier(keys: Any = None, claims: ClaimNames | None = None) -> AccessTokens:
    """One that has the keys already."""
    clock = FakeClock()
    made = AccessTokens(ISSUER, AUDIENCE, clock, claims=claims)

    async def fetch() -> Any:
        return read_keys(keys or jwks())

    made._keys = KeyCache(fetch, clock)
    return made


async def test_a_key_that_replaced_another_one_with_its_id() -> None:
    """Its tokens are valid as soon as the keys are fetched again, and those of the former key are not."""
    clock, sets = FakeClock(), [{"keys": [jwk("ec", FOREIGN)]}, {"keys": [jwk("ec", EC)]}]
    made = AccessTokens(ISSUER, AUDIENCE, clock)

    async def fetch() -> Any:
        return read_keys(sets.pop(0))

    made._keys = KeyCache(fetch, clock)
    assert await made.verify(token()) is None
    clock.advance(COOL_DOWN)
    assert await made.verify(token()) is not None
    assert sets == []


def turned(text: str, part: int, change: Callable[[str], str]) -> str:
    """The token with one of its three parts changed."""
    parts = text.split(".")
    parts[part] = change(parts[part])
    return ".".join(parts)


def other_bits(part: str) -> str:
    """The same bytes, spelled with other trailing bits: what a lax decoder takes for the same."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    assert len(part) % 4
    return part[:-1] + alphabet[alphabet.index(part[-1]) ^ 1]


def hmac_with_public(form: str) -> str:
    """The classic confusion: the public key as a shared secret."""
    public = {
        "pem": RSA.as_pem(private=False),
        "der": RSA.as_der(private=False),
        "jwk": json.dumps(jwk("rsa", RSA)).encode(),
    }
    message = f"{b64(header('rsa', alg='HS256'))}.{b64(claims())}"
    return f"{message}.{b64(hmac.new(public[form], message.encode(), 'sha256').digest())}"


def with_jwk() -> str:
    return signed(header(jwk=jwk("ec", FOREIGN)), claims(), FOREIGN)


HOSTILE: dict[str, Callable[[], str]] = {
    # algorithms and keys
    "alg none": lambda: f"{b64(header(alg='none'))}.{b64(claims())}.",
    "alg none with a signature": lambda: signed(header(alg="none"), claims()),
    "alg nOnE": lambda: signed(header(alg="nOnE"), claims()),
    "alg missing": lambda: signed(header(alg=None), claims()),
    "alg empty": lambda: signed(header(alg=""), claims()),
    "alg a list": lambda: signed(header(alg=["ES256"]), claims()),
    "alg an object": lambda: signed(header(alg={"ES256": 1}), claims()),
    "alg in lower case": lambda: signed(header(alg="es256"), claims()),
    "alg with a blank": lambda: signed(header(alg="ES256 "), claims()),
    "alg nobody knows": lambda: signed(header(alg="XS256"), claims()),
    "HS256 with the public PEM": lambda: hmac_with_public("pem"),
    "HS256 with the public DER": lambda: hmac_with_public("der"),
    "HS256 with the public JWK": lambda: hmac_with_public("jwk"),
    "HS512": lambda: signed(header(alg="HS512"), claims(), OctKey.import_key("x" * 64), "HS512"),
    "ES256 under an RSA key's id": lambda: signed(header("rsa", alg="ES256"), claims(), EC, "ES256"),
    "RS256 under a curve's id": lambda: signed(header("ec", alg="RS256"), claims(), RSA, "RS256"),
    "says PS256, is RS256": lambda: signed(header("rsa", alg="PS256"), claims(), RSA, "RS256"),
    "says RS512, is RS256": lambda: signed(header("rsa", alg="RS512"), claims(), RSA, "RS256"),
    "ES256K": lambda: signed(header(alg="ES256K"), claims()),
    "a foreign key": lambda: signed(header(), claims(), FOREIGN),
    "a foreign key without an id": lambda: signed(header(kid=None), claims(), FOREIGN),
    "its own key in the header": with_jwk,
    "jku": lambda: signed(header(jku="https://evil.example/jwks"), claims()),
    "x5u": lambda: signed(header(x5u="https://evil.example/cert"), claims()),
    "x5c": lambda: signed(header(x5c=["MII"]), claims()),
    # key ids
    "kid unknown": lambda: signed(header("nobody"), claims()),
    "kid a path": lambda: signed(header("../../../../dev/null"), claims()),
    "kid SQL": lambda: signed(header("' OR 1=1 --"), claims()),
    "kid a number": lambda: signed(header(kid=1), claims()),
    "kid a list": lambda: signed(header(kid=["ec"]), claims()),
    "kid empty": lambda: signed(header(kid=""), claims()),
    "kid with NUL": lambda: signed(header(kid="ec\0"), claims()),
    "kid very long": lambda: signed(header(kid="e" * 256), claims()),
    "kid full width": lambda: signed(header(kid="\uff45\uff43"), claims()),
    "kid null": lambda: signed({**header(), "kid": None}, claims()),
    # header
    "typ missing": lambda: signed(header(typ=None), claims()),
    "typ JWT: it may be an ID token": lambda: signed(header(typ="JWT"), claims()),
    "typ of a log-out token": lambda: signed(header(typ="logout+jwt"), claims()),
    "typ with a Kelvin sign's cousin": lambda: signed(header(typ="at+ȷwt"), claims()),
    "typ a number": lambda: signed(header(typ=1), claims()),
    "crit": lambda: signed(header(crit=["exp"]), claims()),
    "crit empty": lambda: signed(header(crit=[]), claims()),
    "b64": lambda: signed(header(b64=False, crit=["b64"]), claims()),
    "cty: a nested JWT": lambda: signed(header(cty="JWT"), token().encode()),
    "a nested JWT that is not said to be one": lambda: signed(header(), token().encode()),
    "zip": lambda: signed(header(zip="DEF"), claims()),
    "an encrypted token": lambda: ".".join([b64(header(alg="RSA-OAEP", enc="A256GCM")), "a", "b", "c", "d"]),
    "header an array": lambda: signed(b'["ES256"]', claims()),
    "header a text": lambda: signed(b'"ES256"', claims()),
    "header not JSON": lambda: signed(b"{alg:1}", claims()),
    "header with a repeated key": lambda: signed(b'{"alg":"none","alg":"ES256","typ":"at+jwt","kid":"ec"}', claims()),
    "header with a byte order mark": lambda: signed(b"\xef\xbb\xbf" + json.dumps(header()).encode(), claims()),
    "header very deep": lambda: signed(b'{"a":' * 40 + b"1" + b"}" * 40, claims()),
    # claims
    "iss missing": lambda: token(iss=None),
    "iss another": lambda: token(iss="https://evil.example"),
    "iss with a slash more": lambda: token(iss=ISSUER + "/"),
    "iss in capitals": lambda: token(iss=ISSUER.upper()),
    "iss a list": lambda: token(iss=[ISSUER]),
    "aud missing": lambda: token(aud=None),
    "aud another": lambda: token(aud="https://other.example"),
    "aud a part": lambda: token(aud=AUDIENCE[:-1]),
    "aud with more behind": lambda: token(aud=AUDIENCE + ".evil.example"),
    "aud empty list": lambda: token(aud=[]),
    "aud a list with a number": lambda: token(aud=[AUDIENCE, 1]),
    "aud an object": lambda: token(aud={AUDIENCE: 1}),
    "aud list in list": lambda: token(aud=[[AUDIENCE]]),
    "exp missing": lambda: token(exp=None),
    "exp null": lambda: signed(header(), {**claims(), "exp": None}),
    "exp a text": lambda: token(exp=str(NOW + 300)),
    "exp true": lambda: token(exp=True),
    "exp a list": lambda: token(exp=[NOW + 300]),
    "exp passed": lambda: token(exp=NOW - 61),
    "exp passed by the leeway": lambda: token(exp=NOW - 60),
    "exp zero": lambda: token(exp=0),
    "exp negative": lambda: token(exp=-NOW),
    "exp NaN": lambda: signed(header(), json.dumps(claims()).replace(str(NOW + 300), "NaN").encode()),
    "exp Infinity": lambda: signed(header(), json.dumps(claims()).replace(str(NOW + 300), "Infinity").encode()),
    "exp 1e400": lambda: signed(header(), json.dumps(claims()).replace(str(NOW + 300), "1e400").encode()),
    "exp of 5,000 digits": lambda: signed(header(), json.dumps(claims()).replace(str(NOW + 300), "9" * 5_000).encode()),
    "nbf in the future": lambda: token(nbf=NOW + 61),
    "nbf a text": lambda: token(nbf="0"),
    "nbf null": lambda: signed(header(), {**claims(), "nbf": None}),
    "iat in the future": lambda: token(iat=NOW + 61),
    "iat a text": lambda: token(iat="now"),
    "sub missing": lambda: token(sub=None),
    "sub empty": lambda: token(sub=""),
    "sub a number": lambda: token(sub=7),
    "sub very long": lambda: token(sub="a" * 256),
    "sub with NUL": lambda: token(sub="ann\0"),
    "sub with a lone surrogate": lambda: signed(header(), SURROGATE),
    "organization missing": lambda: token(org_id=None),
    "organization in capitals": lambda: token(org_id=ORG.upper()),
    "organization without hyphens": lambda: token(org_id=ORG.replace("-", "")),
    "organization in braces": lambda: token(org_id=f"{{{ORG}}}"),
    "organization with a line feed": lambda: token(org_id=ORG + "\n"),
    "organization in full width digits": lambda: token(org_id=ORG.replace("0", "\uff10")),
    "organization a list": lambda: token(org_id=[ORG]),
    "scope a number": lambda: token(scope=1),
    "scope a list with null": lambda: token(scope=["a", None]),
    "scope an object": lambda: token(scope={"a": True}),
    "claims an array": lambda: signed(header(), b"[]"),
    "claims empty": lambda: signed(header(), b"{}"),
    "claims not JSON": lambda: signed(header(), b"exp=1"),
    "claims with something behind": lambda: signed(header(), json.dumps(claims()).encode() + b"{}"),
    "claims in UTF-16": lambda: signed(header(), json.dumps(claims()).encode("utf-16")),
    "claims with a repeated key": lambda: signed(header(), json.dumps(claims()).encode()[:-1] + b',"sub":"root"}'),
    "claims with a key repeated in another spelling": lambda: signed(
        header(), json.dumps(claims()).encode()[:-1] + b',"s\\u0075b":"root"}'
    ),
    # form
    "empty": lambda: "",
    "a dot": lambda: ".",
    "two dots": lambda: "..",
    "no signature": lambda: turned(token(), 2, lambda part: ""),
    "half a signature": lambda: turned(token(), 2, lambda part: part[: len(part) // 2]),
    "a signature of zeros": lambda: turned(token(), 2, lambda part: b64(bytes(64))),
    "a signature in DER": lambda: turned(token(), 2, lambda part: b64(b"\x30\x06\x02\x01\x00\x02\x01\x00")),
    "a signature of another token": lambda: turned(token(), 2, lambda part: token(sub=ELSE).rpartition(".")[2]),
    "claims of another token": lambda: turned(token(), 1, lambda part: b64(claims(sub=ELSE))),
    "header of another token": lambda: turned(token(), 0, lambda part: b64(header("rsa"))),
    "four parts": lambda: token() + ".e30",
    "a line feed behind": lambda: token() + "\n",
    "a blank behind": lambda: token() + " ",
    "padding": lambda: token() + "==",
    "other trailing bits": lambda: turned(token(), 2, other_bits),
    "the other base64": lambda: turned(token(), 1, lambda part: part + "+/"),
    "JSON serialization": lambda: json.dumps(dict(enumerate(token().split(".")))),
    "full width dot": lambda: token().replace(".", "\uff0e"),
    "huge": lambda: token(blob="x" * 16_384),
    "a million dots": lambda: "." * 1_000_000,
    "bytes that are not text": lambda: token() + "\xff\udcff",
}  # fmt: skip


class TestHostile:
    """Tokens of an attacker or of a faulty issuer."""

    def test_there_are_many(self) -> None:
        """There are at least sixty cases."""
        assert len(HOSTILE) >= 60

    @pytest.mark.parametrize("name", HOSTILE)
    async def test_it_has_no_identity(self, name: str) -> None:
        """The result is None, without an exception; the same verifier then accepts a valid token."""
        tokens = verifier()
        assert await tokens.verify(HOSTILE[name]()) is None
        assert await tokens.verify(token()) is not None

    @given(st.text(max_size=60) | st.from_regex(r"[A-Za-z0-9_-]{1,40}\.[A-Za-z0-9_-]{1,40}\.[A-Za-z0-9_-]{1,40}"))
    async def test_no_text_raises(self, text: str) -> None:
        """No text raises an error."""
        assert await verifier().verify(text) is None

    async def test_only_the_log_has_the_reason(self, caplog: pytest.LogCaptureFixture) -> None:
        """The log has the reason, without a part of the token."""
        caplog.set_level("INFO")
        await verifier().verify(token(exp=NOW - 100, sub="canary"))
        assert [record.getMessage() for record in caplog.records] == ["an access token was refused: expired"]


class TestValid:
    """Tokens with an identity."""

    @pytest.mark.parametrize("kid", PRIVATE)
    async def test_every_kind_of_key(self, kid: str) -> None:
        """RSA, elliptic curves and Edwards curves verify."""
        assert await verifier().verify(token(kid)) == Identity(ORG, "ann", frozenset())

    @pytest.mark.parametrize("name", sorted(ALGORITHMS - {"Ed25519"}))
    async def test_every_algorithm(self, name: str) -> None:
        """Each algorithm of the allow-list verifies; all of them are asymmetric."""
        curve = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}.get(name)
        key = ECKey.generate_key(curve) if curve else RSA
        tokens = verifier({"keys": [jwk("k", key)]})
        assert await tokens.verify(signed(header("k", alg=name), claims(), key, name)) is not None
        assert not {found for found in ALGORITHMS if found.startswith("HS") or found == "none"}

    @pytest.mark.parametrize(
        "change",
        [
            {"head": [("alg", "EdDSA")], "kid": "ed"},
            {"head": [("typ", "application/AT+JWT")]},
            {"head": [("x5t", "thumb"), ("whatever", {"a": 1})]},
            {"exp": NOW - 59.5},
            {"nbf": NOW + 60, "iat": NOW + 60},
            {"iat": None},
            {"aud": ["https://other.example", AUDIENCE]},
            {"azp": "client", "nested": {"a": [1, 2]}, "name": "Zoë"},
        ],
    )
    async def test_what_standards_allow(self, change: dict[str, Any]) -> None:
        """The old name of Ed25519, both spellings of the type, unknown parameters, the leeway and several audiences
        are valid.
        """
        assert await verifier().verify(token(**change)) == Identity(ORG, "ann", frozenset())

    async def test_a_token_without_kid_needs_a_single_key(self, caplog: pytest.LogCaptureFixture) -> None:
        """The only fitting key is used; of two keys, none, and the log says so: the issuer has keys."""
        caplog.set_level("INFO")
        rival = {"keys": [jwk("ec", EC), jwk("other", FOREIGN)]}
        assert await verifier().verify(token(head=[("kid", None)])) is not None
        assert await verifier(rival).verify(token(head=[("kid", None)])) is None
        assert "it names no key, and not exactly one of the issuer fits" in caplog.text

    async def test_either_of_two_keys_of_one_id_can_have_signed(self) -> None:
        """A repeated key id does not cause a refusal."""
        assert await verifier({"keys": [jwk("ec", FOREIGN), jwk("ec", EC)]}).verify(token()) is not None

    @pytest.mark.parametrize(
        "scope",
        [
            "workflows:read  root skills:write",
            ["workflows:read", "root", "skills:write"],
            "skills:write workflows:read",
        ],
    )
    async def test_unknown_scopes_are_dropped(self, scope: Any) -> None:
        """Scopes are a text with spaces or a list; unknown ones are dropped."""
        found = await verifier().verify(token(scope=scope))
        assert found is not None
        assert found.scopes == {"workflows:read", "skills:write"} <= frozenset(TOKEN_SCOPES)

    async def test_no_scope_gives_no_scopes(self) -> None:
        """A token without scopes has none, never all."""
        found = await verifier().verify(token(scope=None))
        assert found is not None
        assert found.scopes == frozenset()


class TestClaims:
    """The claims with configured names."""

    ALL = ClaimNames("tenant", "uid", "mail", "mail_ok", "teams")

    async def test_each_claim_has_its_configured_name(self) -> None:
        """All five are read, and the address is in lower case."""
        said = {"tenant": ORG, "org_id": "x", "uid": "u7", "mail": "A@X.org", "mail_ok": True, "teams": [ORG]}
        found = await verifier(claims=self.ALL).verify(token(**said))
        assert found == Identity(ORG, "u7", frozenset(), "a@x.org", True, frozenset({ORG}))

    @pytest.mark.parametrize("value", [None, False, 1, "true", "True", [True]])
    async def test_only_true_is_verified(self, value: Any) -> None:
        """An address is verified only if the claim is `true`."""
        found = await verifier(claims=self.ALL).verify(token(tenant=ORG, uid="u", mail="a@x.org", mail_ok=value))
        assert found is not None
        assert (found.email, found.email_verified) == ("a@x.org", False)

    @pytest.mark.parametrize("value", [None, 1, "", "a", "\u212a@x.org", ["a@x.org"]])
    async def test_an_invalid_address_is_left_out(self, value: Any) -> None:
        """The identity then has no address."""
        found = await verifier(claims=self.ALL).verify(token(tenant=ORG, uid="u", mail=value, mail_ok=True))
        assert found is not None
        assert found.email is None

    async def test_missing_groups_are_an_empty_set(self) -> None:
        """A token without the configured claim has no groups, and does not use those of the member."""
        found = await verifier(claims=self.ALL).verify(token(tenant=ORG, uid="u"))
        assert found is not None
        assert found.groups == frozenset()

    @pytest.mark.parametrize("said", [{"uid": None}, {"uid": ""}, {"teams": "a"}, {"teams": [1]}, {"sub": None}])
    async def test_a_claim_of_another_type_is_refused(self, said: dict[str, Any]) -> None:
        """An invalid user or groups that are not a list are refused; `sub` is required in any case."""
        whole = {"tenant": ORG, "uid": "u", "teams": []}
        assert await verifier(claims=self.ALL).verify(token(**whole)) is not None
        assert await verifier(claims=self.ALL).verify(token(**(whole | said))) is None


class TestKeySet:
    """The usable keys of a JWK Set (RFC 7517, 5)."""

    @pytest.mark.parametrize(
        "bad",
        [
            None, 1, [], {}, {"kty": 1}, {"kty": "EC"}, {"kty": "EC", "crv": "P-256"}, {"kty": "EC", "crv": ["P-256"]},
            {"kty": "oct", "k": "c2VjcmV0", "kid": "ec"}, {"kty": "AKP", "kid": "ec"},
            jwk("k", EC, use="enc"), jwk("k", EC, use=None), jwk("k", EC, key_ops=["sign"]),
            jwk("k", EC, key_ops="verify"),
            jwk("k", EC, alg="HS256"), jwk("k", EC, alg="none"), jwk("k", EC, alg=1), jwk(1, EC),
            jwk("k", EC, x="AAAA"), jwk("k", EC, crv="P-384"), jwk("k", EC, y=None), jwk("k", RSA, n="AQAB"),
            jwk("k", RSA, n="!" * 342), jwk("k", RSA, e=""), jwk("k", RSA, n="f" * 100_000), jwk("k", RSA, alg="ES256"),
        ],
    )  # fmt: skip
    def test_unusable_keys_are_ignored(self, bad: Any) -> None:
        """A valid key beside it is used, the unusable one never."""
        assert [key.kid for key in read_keys({"keys": [bad, jwk("good", EC)]})] == ["good"]

    def test_small_keys_are_ignored(self) -> None:
        """RSA keys of 1,024 bits can be broken."""
        with pytest.warns(Warning, match="1024|2048"):
            small = RSAKey.generate_key(1024)
        assert read_keys({"keys": [jwk("k", small)]}) == ()

    @pytest.mark.parametrize("tree", [None, [], {}, {"keys": {}}, {"keys": None}, "keys"])
    def test_another_value_is_not_a_set(self, tree: Any) -> None:
        """Another value is an error, not an empty set."""
        with pytest.raises(ValueError, match="not a JWK Set"):
            read_keys(tree)

    def test_a_key_keeps_to_its_own_algorithm(self) -> None:
        """`alg` restricts the algorithms; without it the type decides."""
        narrow, wide = read_keys({"keys": [jwk("a", RSA, alg="PS256"), jwk("b", RSA)]})
        assert narrow.algorithms == {"PS256"}
        assert wide.algorithms == {f"{family}S{bits}" for family in "RP" for bits in (256, 384, 512)}
        assert choose([narrow, wide], "a", "RS256") == []

    def test_private_parts_are_dropped(self) -> None:
        """If an issuer publishes a private key by mistake, only its public part is kept."""
        (key,) = read_keys({"keys": [{**EC.as_dict(private=True), "kid": "k"}]})
        assert not key.key.is_private
        assert "d" not in key.key.as_dict()
