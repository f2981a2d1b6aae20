"""What the entries of a run have of one person."""

from wfcore.domain.run.entries import Actor, Cancelled, Decision, Resumed, Retried, Succeeded
from wfcore.domain.run.erasure import texts_of, with_texts

ANN, BOB = Actor("ann"), Actor("bob")


def test_texts_of_decisions_and_outputs() -> None:
    """Of the data of decisions, messages and attachments, and of outputs that were given, by this user only."""
    entries = [
        Resumed(1, "r", ANN, (Decision("i", "approve", {"why": ["because", 1]}), Decision("j", "deny", "no"))),
        Resumed(1, "r", ANN, (), {"message": "hello", "n": None}),
        Resumed(1, "r", BOB, (Decision("i", "approve", "foreign"),)),
        Resumed(1, "r", None),
        Retried(1, "r", ANN, outputs={"a": ("given", True)}),
        Retried(1, "r", BOB, outputs={"a": "foreign"}),
        Cancelled(1, ANN),
    ]
    assert list(texts_of(entries, "ann")) == ["because", "no", "hello", "given"]


def test_the_fields_of_an_entry_are_changed() -> None:
    """Its tag is not a text of the run."""
    entry = Succeeded(1, 2, 3, 4, 5, {"ok": ["ok"]})
    changed = with_texts(entry, lambda field: {"x": 1} if isinstance(field, dict) else field)
    assert changed == Succeeded(1, 2, 3, 4, 5, {"x": 1})
