"""What an export writes, an apply takes."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from two_organizations import Generator, places

pytestmark = pytest.mark.anyio


async def test_106_resources_are_the_same_in_another_organization(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second organization exports the same bytes, and neither a second apply nor a diff finds a difference."""
    async with places(monkeypatch) as (first, second):
        await Generator(first, 7).create(skills=4, workflows=102)
        files = await first.export(tmp_path / "a")
        assert len(files) == 106
        assert first.me.org_uuid not in "".join(files.values())
        await second.apply(tmp_path / "a")
        assert capsys.readouterr().out.count("create") == 106
        assert await second.export(tmp_path / "b") == files
        await second.apply(tmp_path / "a")
        assert capsys.readouterr().out == "nothing to change\n"
        assert await first.diff(tmp_path / "a") == 0


@given(st.integers(0, 2**32), st.integers(0, 6), st.integers(0, 6))
@example(0, 6, 2)  # the third organization has the same groups in another order
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
async def test_an_export_is_applied_as_it_is(
    tmp_path_factory: pytest.TempPathFactory, seed: int, skills: int, workflows: int
) -> None:
    """For any resources, also in the organization that has other content under the same slugs."""
    folder = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as monkeypatch:
        async with places(monkeypatch, 3) as (first, second, third):
            await Generator(first, seed).create(skills, workflows)
            await Generator(third, seed + 1).create(workflows, skills)
            files = await first.export(folder / "a")
            for number, place in enumerate((second, third)):
                await place.apply(folder / "a", prune=True, yes=True)
                assert await place.export(folder / f"b{number}") == files
                assert await place.diff(folder / "a") == 0
