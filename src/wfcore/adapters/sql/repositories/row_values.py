"""Conversion between domain values and rows."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

import attrs

from wfcore.adapters.sql.schema.deferred import sa
from wfcore.domain.json.codec import dumps
from wfcore.domain.json.values import structure
from wfcore.domain.json.values import to_json as unstructured
from wfcore.domain.kernel.ids import is_uuid
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.people.people import AccessToken, Member
from wfcore.domain.resources import access
from wfcore.domain.resources.access import Role
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.resource import CONTENTS, Kind, OwnershipTransfer, Resource, Variation

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_TEXT: Final = b"="


def to_ms(instant: datetime) -> int:
    """Milliseconds since the Unix epoch, rounded down. Raises TypeError for a naive datetime."""
    return (instant - _EPOCH) // _MILLISECOND


def from_ms(ms: int) -> datetime:
    return _EPOCH + ms * _MILLISECOND


def to_json(value: JSON) -> str:
    """A value as JSON text, in its own order and complete. Raises ValueError for a value that is not JSON."""
    try:
        return dumps(value)
    except ValueError:  # the fast codec also refuses integers beyond 64 bits, which JSON allows
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


@lru_cache(maxsize=256)
def to_key(id: str | None) -> bytes | None:
    """An id as a compact key: 16 bytes for a UUID in canonical form, any other text after a `=`."""
    if id is None:
        return None
    raw = bytes.fromhex(id.replace("-", "")) if is_uuid(id) else _TEXT
    return _TEXT + id.encode() if raw.startswith(_TEXT) else raw


@lru_cache(maxsize=256)
def from_key(key: bytes | None) -> str | None:
    if key is None:
        return None
    return key[1:].decode() if key.startswith(_TEXT) else str(UUID(bytes=key))


def resource_row(resource: Resource) -> dict[str, Any]:
    """The columns of a resource, without the organization."""
    return {
        "kind": resource.kind.value,
        "id": resource.id,
        "slug": resource.slug,
        "name": resource.name,
        "description": resource.description,
        "status": resource.status.value,
        "access": to_json(access.to_wire(resource.access)),
        "active_variation_id": resource.active_variation_id,
        "draft_variation_id": resource.draft_variation_id,
        "is_enabled": resource.is_enabled,
        "is_scheduled": resource.is_scheduled,
        "pending_transfer": _from_transfer(resource.pending_transfer),
        "created_at": to_ms(resource.created_at),
        "updated_at": to_ms(resource.updated_at),
        "deleted_at": _optional_ms(resource.deleted_at),
        "revision": resource.revision,
    }


def to_resource(row: "Mapping[str, Any] | sa.RowMapping", org_uuid: str) -> Resource:
    return Resource(
        kind=Kind(row["kind"]),
        org_uuid=org_uuid,
        id=row["id"],
        slug=row["slug"],
        name=row["name"],
        description=row["description"],
        status=Status(row["status"]),
        access=access.from_wire(json.loads(row["access"])),
        created_at=from_ms(row["created_at"]),
        updated_at=from_ms(row["updated_at"]),
        active_variation_id=row["active_variation_id"],
        draft_variation_id=row["draft_variation_id"],
        is_enabled=bool(row["is_enabled"]),
        is_scheduled=bool(row["is_scheduled"]),
        pending_transfer=_to_transfer(row["pending_transfer"]),
        deleted_at=_optional_instant(row["deleted_at"]),
        revision=row["revision"],
    )


def _from_transfer(transfer: OwnershipTransfer | None) -> str | None:
    if transfer is None:
        return None
    fields = attrs.asdict(transfer)
    return to_json(fields | {"requested_at": to_ms(transfer.requested_at)})


def _to_transfer(text: str | None) -> OwnershipTransfer | None:
    if text is None:
        return None
    fields = json.loads(text)
    return OwnershipTransfer(**fields | {"requested_at": from_ms(fields["requested_at"])})


def variation_row(variation: Variation) -> dict[str, Any]:
    return {
        "id": variation.id,
        "content": _content(unstructured(variation.content)),
        "created_at": to_ms(variation.created_at),
        "created_by": variation.created_by,
        **deployment_row(variation),
    }


def _content(content: Mapping[str, JSON]) -> str:
    """The content as JSON, encoded field by field, so that `to_json` encodes a large graph only once."""
    return f"{{{','.join(f'{to_json(name)}:{to_json(value)}' for name, value in content.items())}}}"


def deployment_row(variation: Variation) -> dict[str, Any]:
    """The columns of a variation that can change."""
    return {"deployed_at": _optional_ms(variation.deployed_at), "deployed_by": variation.deployed_by}


def to_variation(row: "sa.RowMapping") -> Variation:
    return Variation(
        id=row["id"],
        content=structure(CONTENTS[Kind(row["kind"])], json.loads(row["content"])),
        created_at=from_ms(row["created_at"]),
        created_by=row["created_by"],
        deployed_at=_optional_instant(row["deployed_at"]),
        deployed_by=row["deployed_by"],
    )


def token_row(token: AccessToken) -> dict[str, Any]:
    return {
        "prefix": token.prefix,
        "secret_hash": token.secret_hash,
        "user_id": token.user_id,
        "name": token.name,
        "scopes": to_json(token.scopes),
        "created_at": to_ms(token.created_at),
        "expires_at": _optional_ms(token.expires_at),
        "revoked_at": _optional_ms(token.revoked_at),
    }


def to_token(row: "Mapping[str, Any] | sa.RowMapping") -> AccessToken:
    return AccessToken(
        prefix=row["prefix"],
        secret_hash=row["secret_hash"],
        user_id=row["user_id"],
        name=row["name"],
        scopes=tuple(json.loads(row["scopes"])),
        created_at=from_ms(row["created_at"]),
        expires_at=_optional_instant(row["expires_at"]),
        revoked_at=_optional_instant(row["revoked_at"]),
    )


def to_token_member(row: Mapping[str, Any]) -> Member:
    """The member in a row of a token with its member."""
    return Member(
        user_id=row["user_id"],
        email=row["email"],
        name=row["member_name"],
        role=Role(row["role"]),
        groups=frozenset(json.loads(row["groups"])),
        email_verified=bool(row["email_verified"]),
    )


def _optional_ms(instant: datetime | None) -> int | None:
    return None if instant is None else to_ms(instant)


def _optional_instant(ms: int | None) -> datetime | None:
    return None if ms is None else from_ms(ms)
