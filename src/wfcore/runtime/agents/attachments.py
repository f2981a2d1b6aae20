"""Attachments: stored for the organization when a body contains them, and sent to models with their messages."""

from collections.abc import Mapping

import attrs

from wfcore.api.runs import AttachmentsDto
from wfcore.domain.agents.attachments import (
    TEXT,
    content_of,
    contradicts_type,
    key_of,
    media_type_of,
    type_of_key,
    upload_fields,
)
from wfcore.domain.agents.context_attachments import keys_of, with_content
from wfcore.domain.json.values import UNSET, UnsetType, to_json
from wfcore.domain.kernel.errors import Issue, TooLarge, refuse
from wfcore.domain.kernel.json_readers import as_objects, as_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.ports.providers import ModelError, ModelRequest
from wfcore.runtime.common.authorization import needs
from wfcore.runtime.common.ports import Ports

CARRIED = ("fileName", "mimeType", "summary", "originalSize", "storageFileName")
"""Fields of a document that are stored unchanged."""


@attrs.frozen
class Upload:
    """Stored content, which bodies refer to by `key`. `size` is in bytes."""

    key: str
    media_type: str
    size: int

    def to_wire(self) -> dict[str, JSON]:
        key = {"uploadId": self.key, "storageKey": self.key}
        return {**key, "mimeType": self.media_type, "sizeBytes": self.size}


class Attachments:
    """Images and texts in the bodies of starts and resumes."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._blobs = ports.blobs

    @needs("workflows:invoke")
    async def upload(self, me: Principal, data: bytes, media_type: str | None = None) -> Upload:
        """Store an image (PNG, JPEG, GIF, WebP) or a text in UTF-8 for bodies of the same organization.

        Equal content is stored once, with the same key. `media_type` is the type that the sender declares. Errors:
        TooLarge; Invalid for other content, and for content that differs from the declared type.
        """
        most = self._ports.settings.attachments.size
        if len(data) > most:
            raise TooLarge(f"the upload must have at most {most} bytes", {"maxBytes": most})
        found = media_type_of(data)
        if found is None:
            refuse([Issue("", "must be an image (PNG, JPEG, GIF, WebP) or a text in UTF-8, not empty", "mediaType")])
        elif contradicts_type(media_type, found):
            refuse([Issue("Content-Type", f"the content is `{found}`", "mediaType")])
        return await self._put(me.org_uuid, data, str(found))

    async def save(self, me: Principal, attachments: AttachmentsDto | UnsetType) -> dict[str, JSON]:
        """Store the attachments of a validated body. Returns them as a field of the expression variable `run`, or {}.

        Invalid, with nothing stored, when the body names an upload that the organization does not have.
        """
        entries, org = {} if attachments is UNSET else to_json(attachments), me.org_uuid
        if not any(entries.values()):
            return {}
        uploads = await self._uploads(org, entries)
        images = [await self._image(org, image, uploads) for image in as_objects(entries.get("images", ()))]
        documents = [
            await self._document(org, document, uploads) for document in as_objects(entries.get("documents", ()))
        ]
        return {"attachments": {"images": images, "documents": documents}}

    async def request(self, org: str, request: ModelRequest) -> ModelRequest:
        """The request with the content of all attachments of its messages. `ModelError` when one is missing."""
        contents = dict[str, bytes]()
        for key in {key for message in request.messages for key in keys_of(message)}:
            data = await self._blobs.get(org, key)
            if data is None:
                message = f"the attachment `{key}` does not exist any more"
                raise ModelError(message, retryable=False, reason="attachment_missing")
            contents[key] = data
        return attrs.evolve(request, messages=[with_content(message, contents) for message in request.messages])

    async def _uploads(self, org: str, given: Mapping[str, JSON]) -> dict[str, Upload]:
        """The uploads that these attachments refer to, by key."""
        found, issues = dict[str, Upload](), list[Issue]()
        for kind, entries in given.items():
            for index, entry in enumerate(as_objects(entries)):
                for name in upload_fields(entry):
                    key = as_text(entry[name])
                    media_type = type_of_key(key)
                    size = await self._blobs.renew(org, key) if media_type else None
                    if media_type is None or size is None:
                        path = f"attachments.{kind}[{index}].{name}"
                        issues.append(Issue(path, "is not an upload of this organization", "reference"))
                    else:
                        found[key] = Upload(key, media_type, size)
        refuse(issues)
        return found

    async def _image(self, org: str, image: Mapping[str, JSON], uploads: Mapping[str, Upload]) -> dict[str, JSON]:
        if "data" in image:
            data = content_of(as_text(image["data"]))
            kept = await self._put(org, data, str(media_type_of(data)))
        else:
            kept = uploads[as_text(image[upload_fields(image)[0]])]
        named = {"name": image["name"]} if "name" in image else {}
        return {"storageKey": kept.key, "mimeType": kept.media_type, "sizeBytes": kept.size, **named}

    async def _document(self, org: str, document: Mapping[str, JSON], uploads: Mapping[str, Upload]) -> dict[str, JSON]:
        raw = [as_text(document[name]) for name in upload_fields(document)[:1]]
        if "parsedContent" in document:
            kept = await self._put(org, as_text(document["parsedContent"]).encode(), TEXT)
        else:
            kept = uploads[raw[0]]
        fields = {name: document[name] for name in CARRIED if name in document}
        fields |= {"rawContentStorageKey": raw[0]} if raw else {}
        return {"storageKey": kept.key, "sizeBytes": kept.size, **fields}

    async def _put(self, org: str, data: bytes, media_type: str) -> Upload:
        key = key_of(data, media_type)
        await self._blobs.put(org, key, data)
        return Upload(key, media_type, len(data))
