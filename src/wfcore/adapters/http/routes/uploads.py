"""Uploads: the content of attachments, sent before the run that uses it."""

from collections.abc import Iterator
from http import HTTPStatus

from starlette.responses import Response

from wfcore.adapters.http.core.request_parsing import check_content_type, one_header
from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import Call, Route
from wfcore.api.runs import UploadDto
from wfcore.domain.agents.attachments import SUFFIXES
from wfcore.runtime.agents.attachments import Attachments
from wfcore.runtime.common.authorization import scopes_of


class UploadRoutes:
    """The one route. The body of a run refers to an upload by its `uploadId`."""

    def __init__(self, attachments: Attachments, max_bytes: int) -> None:
        self._attachments = attachments
        self._max_bytes = max_bytes

    def table(self) -> Iterator[Route]:
        yield Route(
            "uploads.create", "POST", "/agent/v1/uploads", self.create,
            "Upload an image or a text, to attach it to runs",
            scopes_of(self._attachments.upload), UploadDto, HTTPStatus.CREATED,
            request_media_types=("application/octet-stream", *SUFFIXES), max_body_bytes=self._max_bytes,
        )  # fmt: skip

    async def create(self, call: Call) -> Response:
        check_content_type(call.headers)
        media_type = one_header(call.headers, "Content-Type")
        found = await self._attachments.upload(call.me, await call.raw(), media_type)
        return json_response(found.to_wire(), HTTPStatus.CREATED)
