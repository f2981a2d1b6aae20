"""OAuth 2.1 access tokens of an external issuer: JSON Web Tokens (RFC 9068)."""

from wfcore.extras import needs_extra
from wfcore.ports.identity import ClaimNames

with needs_extra("oauth", "the verification of access tokens"):
    from wfcore.adapters.oauth.tokens import AccessTokens

__all__ = ["AccessTokens", "ClaimNames"]
