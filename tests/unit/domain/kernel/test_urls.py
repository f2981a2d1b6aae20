"""URLs that customers configure."""

import pytest

from wfcore.domain.kernel.urls import is_url


@pytest.mark.parametrize(
    "url",
    ["https://x.org", "http://x.org:8080/a?b=c", "HTTPS://X.org/", "http://127.0.0.1", "http://[::1]:9/a%20b"],
)
def test_accepted(url: str) -> None:
    """http or https, a host, and optionally a port, path and query."""
    assert is_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "", "x.org", "//x.org", "ftp://x.org", "https://", "https://:80", "https://u@x.org", "https://@x.org",
        "https://x.org/#f", "https://x.org#", "https://x.org:99999", "https://x.org:a", "https://[::1",
        "https://x.org/a b", "https://x.org/\n", "https://x.org\\@y.org", "https://bücher.de", " https://x.org",
    ],
)  # fmt: skip
def test_refused(url: str) -> None:
    """Other schemes, credentials, fragments, wrong ports and characters outside visible ASCII are refused."""
    assert not is_url(url)
