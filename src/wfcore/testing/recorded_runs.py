"""Recorded runs in the test suite of a product: a new release, or a changed workflow, behaves as the recorded runs did.

@pytest.mark.parametrize("recorded", replays("recordings"), ids=str)
def test_recorded_runs(recorded):
    recorded.check()                  # with the installed release of wfcore
    recorded.check("refund.yaml")     # with the workflow as it is now
"""

from collections.abc import Mapping
from pathlib import Path

import attrs

from wfcore.domain.graph.rules import body_errors
from wfcore.domain.graph.structure import structure_of_body
from wfcore.domain.kernel.errors import refuse
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.recording import Recording, ReplayDifference
from wfcore.workflow_files import Workflow, body_of


class ReplayDiffers(AssertionError):
    """A replay differs from the recorded run; `difference` is where it does first."""

    def __init__(self, file: Path, difference: ReplayDifference) -> None:
        super().__init__(f"the replay of `{file}` differs: {difference}")
        self.difference = difference


@attrs.frozen
class RecordedRun:
    """One file of a recorded run, as `wfcore replay RUN --save FILE` writes it."""

    file: Path
    recording: Recording

    def check(self, workflow: Workflow | None = None) -> None:
        """Replay the run with this release; with a workflow (a structure, a body, a `Flow` or a file) with its graph.

        Raises ReplayDiffers at the first difference; Invalid for a graph that cannot run; ValueError for a workflow if
        the run is not one of a workflow.
        """
        difference = self.recording.difference(None if workflow is None else _structure(workflow))
        if difference is not None:
            raise ReplayDiffers(self.file, difference)

    def __str__(self) -> str:
        return self.file.stem


def replays(directory: str | Path) -> list[RecordedRun]:
    """The recorded runs (`*.jsonl`) of a directory, by name. Raises FileNotFoundError if there is none."""
    files = sorted(Path(directory).glob("*.jsonl"))
    if not files:
        raise FileNotFoundError(f"`{directory}` has no recorded runs: `wfcore replay RUN --save FILE.jsonl` writes one")
    return [RecordedRun(file, Recording.parse(file.read_text("utf-8"))) for file in files]


def _structure(workflow: Workflow) -> Mapping[str, JSON]:
    body = body_of(workflow)
    refuse(body_errors(body), as_invalid=True)
    return structure_of_body(body)
