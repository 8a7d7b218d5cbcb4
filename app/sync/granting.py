"""Vault keys among devices: each is given the key for new content in a signed statement, sealed to its own key.

So a key reaches every device by the same way as everything else, also one that is away now, and never one that was
revoked: rotation is a new key of the next generation, granted to those who are left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from app.core.errors import ErrorCode, ExpectedError
from app.storage.cipher import KEY_BYTES, VaultKey
from app.storage.signing import DeviceKeys, seal_to_device
from app.sync.membership import GrantedKey, Membership
from app.sync.statements import Grant, Statement, chain_end, make_statement


def grant_key(known: Collection[Statement], by: DeviceKeys, membership: Membership, key: VaultKey) -> list[Statement]:
    """Return the statements by which every member that was not given ``key`` yet is given it."""
    granted = next((one for one in membership.keys if one.id == key.id), None)
    has = {public for public, _ in granted.sealed} if granted else set()
    generation = granted.generation if granted else 1 + max((one.generation for one in membership.keys), default=0)
    waiting = [one.public for one in membership.members if one.public not in has]
    return _grants(known, by, membership.space, key, generation=generation, to=waiting)


def open_granted(granted: GrantedKey, keys: DeviceKeys) -> VaultKey | None:
    """Return the key that was granted to this device, None when it was not given it.

    Raises ``ExpectedError`` bad-message when what it was given is not that key.
    """
    sealed = granted.sealed_to(keys.public.hex())
    if sealed is None:
        return None
    key = keys.open_sealed(sealed)
    if len(key) != KEY_BYTES or VaultKey(key).id != granted.id:
        raise ExpectedError(ErrorCode.BAD_MESSAGE, "A device was given a vault key that is none.")
    return VaultKey(key)


def _grants(
    known: Collection[Statement], by: DeviceKeys, space: str, key: VaultKey, *, generation: int, to: Iterable[str]
) -> list[Statement]:
    made: list[Statement] = []
    end = chain_end(known, by.public.hex())
    for public in to:
        sealed = seal_to_device(key.key, bytes.fromhex(public)).hex()
        body = Grant(device=public, key=key.id, generation=generation, sealed=sealed)
        end = make_statement(by, body, space=space, after=end)
        made.append(end)
    return made
