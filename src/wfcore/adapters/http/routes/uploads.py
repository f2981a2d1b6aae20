"""Uploads: content for attachments, sent ahead as it is."""

from collections.abc import Iterator
from http import HTTPStatus

from starlette.responses import Response

from wfcore.adapters.http.core.request_parsing import one_header
from wfcore.adapters.http.core.responses import json_answer
from wfcore.adapters.http.core.route import Call, Route
from wfcore.api.runs import UploadDto
from wfcore.domain.agents.attachments import SUFFIXES
from wfcore.runtime.agents.attachments import Attachments
from wfcore.runtime.common.authorization import scopes_of


class UploadRoutes:
    """The one call; what came of it is named in the bodies of runs."""

    def __init__(self, attachments: Attachments, most: int) -> None:
        self._attachments = attachments
        self._most = most

    def table(self) -> Iterator[Route]:
        yield Route(
            "uploads.create", "POST", "/agent/v1/uploads", self.create, "Keep an image or a text, to attach it to runs",
            scopes_of(self._attachments.upload), UploadDto, HTTPStatus.CREATED,
            takes=("application/octet-stream", *SUFFIXES), most_bytes=self._most,
        )  # fmt: skip

    async def create(self, call: Call) -> Response:
        media_type = one_header(call.headers, "Content-Type")
        found = await self._attachments.upload(call.me, await call.raw(), media_type)
        return json_answer(found.to_wire(), HTTPStatus.CREATED)
