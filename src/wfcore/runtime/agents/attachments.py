"""Attachments: kept with the organization when a body brings them, and shown to models when they are called."""

from collections.abc import Mapping

import attrs

from wfcore.domain.agents.attachments import TEXT, content_of, key_of, media_type_of, misnamed, naming, type_of_key
from wfcore.domain.agents.context_attachments import keys_of, shown
from wfcore.domain.kernel.errors import Issue, TooLarge, refuse
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.ports.providers import ModelError, ModelRequest
from wfcore.runtime.common.authorization import needs
from wfcore.runtime.common.ports import Ports

CARRIED = ("fileName", "mimeType", "summary", "originalSize", "storageFileName")
"""What a document says of itself, carried as it is."""


@attrs.frozen
class Upload:
    """Content that is kept, to be named in bodies by `key`. `size` is in bytes."""

    key: str
    media_type: str
    size: int

    def to_wire(self) -> dict[str, JSON]:
        told = {"mimeType": self.media_type, "sizeBytes": self.size}
        return {"uploadId": self.key, "storageKey": self.key, **told}


class Attachments:
    """Images and texts that runs are started and resumed with."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._blobs = ports.blobs

    @needs("workflows:invoke")
    async def upload(self, me: Principal, data: bytes, media_type: str | None = None) -> Upload:
        """Keep an image (PNG, JPEG, GIF, WebP) or a text in UTF-8, to be named in bodies of the same organization.

        The same content is kept once, under the same key. `media_type` is what the sender says it is. Errors: TooLarge;
        Invalid for what is neither, and for content that is something else than the sender says.
        """
        most = self._ports.settings.attachments.size
        if len(data) > most:
            raise TooLarge(f"the upload has more than {most} bytes", {"maxBytes": most})
        found = media_type_of(data)
        if found is None:
            refuse([Issue("", "must be an image (PNG, JPEG, GIF, WebP) or a text in UTF-8, not empty", "mediaType")])
        elif misnamed(media_type, found):
            refuse([Issue("Content-Type", f"the content is `{found}`", "mediaType")])
        return await self._put(me.org_uuid, data, str(found))

    async def kept(self, me: Principal, data: Mapping[str, JSON]) -> dict[str, JSON]:
        """What the turn carries of its body's attachments, as a field of what expressions read as `run`; {} for none.

        The body has passed its check. Invalid, with nothing kept, when it names what its organization does not have.
        """
        given, org = data.get("attachments") or {}, me.org_uuid
        if not any(given.values()):
            return {}
        uploads = await self._uploads(org, given)
        images = [await self._image(org, image, uploads) for image in given.get("images", ())]
        documents = [await self._document(org, document, uploads) for document in given.get("documents", ())]
        return {"attachments": {"images": images, "documents": documents}}

    async def request(self, org: str, request: ModelRequest) -> ModelRequest:
        """The request with the content of all that is attached to its messages. `ModelError` when some is gone."""
        contents = dict[str, bytes]()
        for key in {key for message in request.messages for key in keys_of(message)}:
            data = await self._blobs.get(org, key)
            if data is None:
                message = f"the attachment `{key}` is not there any more"
                raise ModelError(message, retryable=False, reason="attachment_missing")
            contents[key] = data
        return attrs.evolve(request, messages=[shown(message, contents) for message in request.messages])

    async def _uploads(self, org: str, given: Mapping[str, JSON]) -> dict[str, Upload]:
        """The uploads that these attachments name, by key."""
        found, issues = dict[str, Upload](), list[Issue]()
        for kind, entries in given.items():
            for index, entry in enumerate(entries):
                for name in naming(entry):
                    key, media_type = entry[name], type_of_key(entry[name])
                    size = await self._blobs.size(org, key) if media_type else None
                    if media_type is None or size is None:
                        path = f"attachments.{kind}[{index}].{name}"
                        issues.append(Issue(path, "names no upload of this organization", "reference"))
                    else:
                        found[key] = Upload(key, media_type, size)
        refuse(issues)
        return found

    async def _image(self, org: str, image: Mapping[str, JSON], uploads: Mapping[str, Upload]) -> dict[str, JSON]:
        if "data" in image:
            data = content_of(image["data"])
            kept = await self._put(org, data, str(media_type_of(data)))
        else:
            kept = uploads[image[naming(image)[0]]]
        told = {"storageKey": kept.key, "mimeType": kept.media_type, "sizeBytes": kept.size}
        return told | ({"name": image["name"]} if "name" in image else {})

    async def _document(self, org: str, document: Mapping[str, JSON], uploads: Mapping[str, Upload]) -> dict[str, JSON]:
        raw = [document[name] for name in naming(document)[:1]]
        if "parsedContent" in document:
            kept = await self._put(org, document["parsedContent"].encode(), TEXT)
        else:
            kept = uploads[raw[0]]
        told = {name: document[name] for name in CARRIED if name in document}
        told |= {"rawContentStorageKey": raw[0]} if raw else {}
        return {"storageKey": kept.key, "sizeBytes": kept.size, **told}

    async def _put(self, org: str, data: bytes, media_type: str) -> Upload:
        key = key_of(data, media_type)
        await self._blobs.put(org, key, data)
        return Upload(key, media_type, len(data))
