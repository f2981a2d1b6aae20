"""URLs that customers configure and that wfcore sends requests to."""

import re
from typing import Final
from urllib.parse import urlsplit

URL_RULE: Final = "must be a URL of http or https without user, password and fragment"

_PLAIN = re.compile(r"[!-~]+", re.ASCII)


def is_url(text: str) -> bool:
    """Whether the text satisfies `URL_RULE`. The outbound client checks the host's address when it sends a request."""
    try:
        url = urlsplit(text)
        host, _ = url.hostname, url.port
    except ValueError:
        return False
    plain = _PLAIN.fullmatch(text) is not None and "\\" not in text and "#" not in text
    return plain and url.scheme in ("http", "https") and bool(host) and "@" not in url.netloc
