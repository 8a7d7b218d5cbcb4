"""Identifiers. All are 32 lower-case hex digits (128 bits); people may type any unique prefix of six or more.

* a job id is random;
* a media id is SHA-256 of ``"media"`` and the job id;
* a task id is SHA-256 of (job id, task kind, target, source fingerprint), so that two devices which plan the same
  task name it alike.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable

from app.core.errors import ErrorCode, ExpectedError

ID_LENGTH = 32
MIN_PREFIX_LENGTH = 6


def new_id() -> str:
    """Return a fresh random id."""
    return secrets.token_hex(ID_LENGTH // 2)


def _digest(*parts: str) -> str:
    hasher = hashlib.sha256()
    for part in parts:
        data = part.encode()
        hasher.update(len(data).to_bytes(4, "big") + data)
    return hasher.hexdigest()[:ID_LENGTH]


def media_id_of(job_id: str) -> str:
    """Return the id of the media that job ``job_id`` makes."""
    return _digest("media", job_id)


def task_id_of(*, job_id: str, kind: str, target: str, fingerprint: str) -> str:
    """Return the deterministic id of one task of a job."""
    return _digest("task", job_id, kind, target, fingerprint)


def resolve_id_prefix(prefix: str, ids: Iterable[str]) -> str:
    """Return the one id that starts with ``prefix``.

    Raises ``ExpectedError`` no-such-id or ambiguous-id.
    """
    prefix = prefix.lower()
    matches = [one for one in ids if one == prefix or (len(prefix) >= MIN_PREFIX_LENGTH and one.startswith(prefix))]
    if len(matches) == 1:
        return matches[0]
    if not matches and len(prefix) < MIN_PREFIX_LENGTH:
        raise ExpectedError(
            ErrorCode.NO_SUCH_ID,
            f"“{prefix}” is too short for an id; type at least {MIN_PREFIX_LENGTH} letters.",
        )
    if not matches:
        raise ExpectedError(
            ErrorCode.NO_SUCH_ID, f"There is nothing with the id “{prefix}” here; list what there is first."
        )
    raise ExpectedError(ErrorCode.AMBIGUOUS_ID, f"“{prefix}” fits {len(matches)} ids; type more of the one you mean.")
