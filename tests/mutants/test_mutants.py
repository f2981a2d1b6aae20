"""A few planted faults are caught, and the others can still be planted. `make mutants` plants all of them."""

from pathlib import Path

import attrs
import pytest
from planted import Mutant
from planting import MUTANTS, ROOT, applies, main, results

SLICE = ("a guest manages", "an id with a line feed", "one person votes twice")


def test_every_fault_can_be_planted() -> None:
    """The text of each occurs once in its file, its tests exist, and no two have one name."""
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 80
    stale = [mutant.name for mutant in MUTANTS if not applies(mutant, (ROOT / mutant.file).read_text())]
    assert stale == []
    named = {test.partition("::")[0] for mutant in MUTANTS for test in mutant.tests if "/" in test}
    assert [test for test in named if not Path(ROOT, test).exists()] == []


@pytest.mark.xdist_group("mutants")
def test_some_are_caught(capsys: pytest.CaptureFixture[str]) -> None:
    """In copies of the repository, each beside the tests of its module."""
    assert main(SLICE) == 0
    assert f"{len(SLICE)} of {len(SLICE)} caught" in capsys.readouterr().out


@pytest.mark.xdist_group("mutants")
def test_what_is_not_caught_is_reported() -> None:
    """A change that means the same is missed, and one of another text is stale."""
    same = Mutant(
        "the same", "src/wfcore/domain/kernel/sharing.py", '"""', '"""', ("tests/unit/domain/kernel/test_sharing.py",)
    )
    file = (ROOT / same.file).read_text()
    same = attrs.evolve(same, old=file, new=f"{file}\n")
    stale = attrs.evolve(same, old="no such text")
    assert [result.status for _, result in results([same, stale])] == ["missed", "stale"]
