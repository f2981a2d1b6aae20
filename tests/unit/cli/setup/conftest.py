"""An organization for the commands that manage one."""

from pathlib import Path

import pytest
from managing import Organization, organization


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Organization:
    return organization(tmp_path, monkeypatch, capsys)
