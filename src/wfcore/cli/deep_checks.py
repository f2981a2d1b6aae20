"""What `wfcore db check --deep` reads beside the journals: all rows, and what they need outside of the database."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from wfcore.adapters.blobs import fault_of
from wfcore.adapters.sql.transfer.contents import AttachmentName, contents_of
from wfcore.adapters.sql.transfer.databases import Address, opened
from wfcore.cli.backups import Bar, Installation, key_faults


def row_faults(of: Installation, databases: Iterable[Address], bar: Bar) -> list[str]:
    """A line for each attachment and each key that a row of these databases needs and that is missing."""
    faults = list[str]()
    for address in databases:
        with opened(address, begin="DEFERRED") as source:
            needed = contents_of(source)
        with bar("attachments") as show:
            faults += _attachment_faults(of, needed.attachments(), show)
        faults += key_faults(of.secret_keys(), needed.secrets())
    return faults


def _attachment_faults(
    of: Installation, needed: Sequence[AttachmentName], show: Callable[[int, int], None]
) -> Iterator[str]:
    for done, each in enumerate(needed, 1):
        if fault := fault_of(of.blobs_directory, each.org, each.key):
            yield f"{each} is {fault}"
        show(done, len(needed))
