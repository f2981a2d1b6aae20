"""What the commands open."""

from pathlib import Path

import pytest

from wfcore.cli.common import IN_MEMORY, open_core

CONFIG = '[models.quick]\nprovider = "scripted"\n'


@pytest.mark.anyio
@pytest.mark.parametrize(("worker", "models"), [(True, False), (False, True), (True, True)])
async def test_configured_models(tmp_path: Path, worker: bool, models: bool) -> None:
    """They are there for who drives runs, and for a server that only checks the requests that name them."""
    file = tmp_path / "wfcore.toml"
    file.write_text(CONFIG)
    async with open_core(IN_MEMORY, str(file), worker=worker, models=models) as core:
        assert "quick" in core.ports.models
