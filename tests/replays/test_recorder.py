"""The recorder of frozen journals."""

from pathlib import Path

import pytest
import recorder
from all_scenarios import SCENARIOS
from frozen import FOLDER


def test_every_scenario_is_frozen() -> None:
    """A scenario that was added is recorded too. A file may be of a scenario that is no longer played."""
    assert set(SCENARIOS) <= {file.stem for file in FOLDER.glob("*.jsonl")}


@pytest.mark.anyio
async def test_what_is_frozen_is_never_written_again(tmp_path: Path) -> None:
    """The recorder refuses to; in an empty folder it writes the same file each time."""
    with pytest.raises(FileExistsError, match=r"`one_action\.jsonl` is frozen"):
        await recorder.record("one_action", FOLDER)
    texts = []
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        path = await recorder.record("two_approvals_in_two_turns", tmp_path / str(number))
        texts.append(path.read_text())
        path.unlink()
    assert texts[0] == texts[1]
