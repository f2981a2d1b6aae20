"""OAuth 2.1 access tokens of an issuer outside: JSON Web Tokens (RFC 9068)."""

from wfcore.adapters.oauth.tokens import AccessTokens
from wfcore.ports.identity import ClaimNames

__all__ = ["AccessTokens", "ClaimNames"]
