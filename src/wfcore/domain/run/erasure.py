"""What the entries of a run have of one person who took part in it."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.entries import Entry, Resumed, Retried, decode_entry, encode_entry


def texts_of(entries: Iterable[Entry], user_id: str) -> Iterator[str]:
    """The texts that the user gave: the data of decisions, messages and attachments of resumes, outputs of retries."""
    for entry in entries:
        if isinstance(entry, Resumed) and entry.by is not None and entry.by.user_id == user_id:
            yield from _texts([decision.data for decision in entry.decisions])
            yield from _texts(entry.info)
        if isinstance(entry, Retried) and entry.by.user_id == user_id:
            yield from _texts(entry.outputs)


def _texts(value: JSON) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for item in value.values():
                yield from _texts(item)
        case list() | tuple():
            for item in value:
                yield from _texts(item)


def with_texts(entry: Entry, change: Callable[[JSON], JSON]) -> Entry:
    """The entry with `change` of its fields as JSON."""
    tag, *fields = json.loads(encode_entry(entry))
    return decode_entry(json.dumps([tag, *(change(field) for field in fields)], ensure_ascii=False))
