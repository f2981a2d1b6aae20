"""The check of an access configuration that a client sends (interface, AccessConfig)."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final, get_args

from wfcore.domain.kernel.errors import Issue, join_path, usable
from wfcore.domain.kernel.ids import is_uuid, normalize_email
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import AccessConfig, Principal, Visibility

_FORMS: Final[Mapping[type, str]] = {bool: "a boolean", str: "a string", dict: "an object", list: "an array"}
_CONFIG_KEYS = ("visibility", "groupPermissions", "sharedWith", "ownerUserId", "ownerEmail", "guardrails")
_ENTRY_KEYS = ("email", "addedAt", "addedBy", "userId")


def check_access(
    data: JSON,
    *,
    current: AccessConfig | None,
    groups: Collection[str] | None,
    writer: Principal | None = None,
) -> list[Issue]:
    """Every fault of an accessConfig body, each under its wire path (interface, AccessConfig).

    Only `visibility` is required; other keys default to empty: `shared` without `groupPermissions` gives no rights to
    anyone. A client can write back what it read: `addedAt` and `addedBy` are ignored, and the owner must be that of
    `current` (on create: none, or the `writer`). `groups` are the groups of the organization, with the implicit one;
    None skips the check that a group exists.
    """
    path = "accessConfig"
    if not isinstance(data, dict):
        return _typed(data, path, dict)
    owner = (current.owner_user_id, current.owner_email) if current else (None, None)
    accepted = (writer.user_id, writer.verified_email) if writer and not current else owner
    return [
        *_unknown(data, path, _CONFIG_KEYS),
        *_check_visibility(data, path),
        *_check_groups(data, path, groups),
        *_check_shared_with(data, path),
        *_check_owner(data, path, "ownerUserId", (owner[0], accepted[0])),
        *_check_owner(data, path, "ownerEmail", (owner[1], accepted[1])),
        *_field(data, path, "guardrails", list),
    ]


def _check_visibility(data: Mapping[str, JSON], path: str) -> list[Issue]:
    visibility = data.get("visibility")
    if not isinstance(visibility, str) or visibility in get_args(Visibility):
        return _field(data, path, "visibility", str, required=True)
    message = f"{_shown(visibility)} is not one of `shared`, `private`"
    return [Issue(join_path(path, "visibility"), message, "enum")]


def _check_groups(data: Mapping[str, JSON], path: str, groups: Collection[str] | None) -> list[Issue]:
    faults = _field(data, path, "groupPermissions", dict)
    permissions = data.get("groupPermissions")
    if not isinstance(permissions, dict):
        return faults
    for uuid, bits in permissions.items():
        where = join_path(join_path(path, "groupPermissions"), uuid)
        if not is_uuid(uuid):
            faults.append(Issue(where, f"{_shown(uuid)} is not a UUID in lower case with hyphens", "uuid"))
        elif groups is not None and uuid not in groups:
            faults.append(Issue(where, f"unknown group {_shown(uuid)}: the organization does not have it", "group"))
        faults += _check_bits(bits, where)
    return faults


def _check_bits(bits: JSON, path: str) -> list[Issue]:
    if not isinstance(bits, dict):
        return _typed(bits, path, dict)
    return [
        *_unknown(bits, path, ("use", "manage")),
        *_field(bits, path, "use", bool, required=True),
        *_field(bits, path, "manage", bool, required=True),
    ]


def _check_shared_with(data: Mapping[str, JSON], path: str) -> list[Issue]:
    faults = _field(data, path, "sharedWith", list)
    entries = data.get("sharedWith")
    if not isinstance(entries, list):
        return faults
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        where = join_path(path, f"sharedWith[{index}]")
        if isinstance(entry, dict):
            faults += [*_check_entry(entry, where), *_check_email(entry, where, seen)]
        else:
            faults += _typed(entry, where, dict)
    return faults


def _check_entry(entry: Mapping[str, JSON], path: str) -> list[Issue]:
    faults = [
        *_unknown(entry, path, _ENTRY_KEYS),
        *(fault for key in _ENTRY_KEYS for fault in _field(entry, path, key, str, required=key == "email")),
    ]
    if entry.get("userId") == "":
        faults.append(Issue(join_path(path, "userId"), "must not be empty", "length"))
    return faults


def _check_email(entry: Mapping[str, JSON], path: str, seen: set[str]) -> Iterator[Issue]:
    if not isinstance(address := entry.get("email"), str):
        return
    where, email = join_path(path, "email"), normalize_email(address)
    if email is None:
        yield Issue(where, f"{_shown(address)} is not a valid ASCII e-mail address", "email")
    elif email in seen:
        yield Issue(where, f"{_shown(email)} is already in the list", "duplicate")
    else:
        seen.add(email)


def _check_owner(data: Mapping[str, JSON], path: str, key: str, allowed: tuple[str | None, str | None]) -> list[Issue]:
    value, where = data.get(key, allowed[0]), join_path(path, key)
    if key == "ownerEmail" and isinstance(value, str):
        value = normalize_email(value) or value
    if value in allowed:
        return []
    return (value is not None and _typed(value, where, str)) or [
        Issue(where, "only an ownership transfer can change the owner", "readonly")
    ]


def _field(data: Mapping[str, JSON], path: str, key: str, form: type, *, required: bool = False) -> list[Issue]:
    if key in data:
        return _typed(data[key], join_path(path, key), form)
    return [Issue(join_path(path, key), f"`{key}` is required", "required")] if required else []


def _typed(value: JSON, path: str, form: type) -> list[Issue]:
    return [] if isinstance(value, form) else [Issue(path, f"must be {_FORMS[form]}", "type")]


def _unknown(data: Mapping[str, JSON], path: str, known: Collection[str]) -> list[Issue]:
    return [
        Issue(join_path(path, key), f"is not a known key{usable(known)}", "unknown") for key in data if key not in known
    ]


def _shown(value: str) -> str:
    return f"`{value[:80]}`"
