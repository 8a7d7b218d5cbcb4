"""This device among the owner's: who belongs to the space, the 24 words, and which vault key seals new content.

::

    statements change (pairing, revocation, from a peer) ──► follow()
        a newer vault key was granted to this device           ──► it is adopted
        the newest was ever granted to a device that is out    ──► a new one is made, and granted to those who are left
        a member was not given the newest yet                  ──► it is granted

Each step is written down before the next is taken, and ``follow`` runs at every start, so a crash anywhere in between
leaves nothing to repair. All changes happen one after the other (``_change``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from app.core.errors import ErrorCode, ExpectedError
from app.core.ids import resolve_id_prefix
from app.engine import api
from app.engine.kernel import Kernel
from app.storage.cipher import KEY_BYTES, OwnerKeys, VaultKey, owner_keys
from app.storage.signing import Signer, owner_signer
from app.sync.addresses import Address
from app.sync.granting import grant_key, open_granted
from app.sync.membership import Membership, Standing, add_device, found_space, judge, overrule, revoke_device
from app.sync.membership_store import MembershipStore
from app.sync.statements import Statement, decode_statement
from app.sync.words import check_words, secret_of, words_of

if TYPE_CHECKING:
    from app.sync.pairing import Asked, Welcome

_log = logging.getLogger(__name__)
MIN_CONFIRMED_WORDS = 3
LISTEN_S = 4.0
"""How long the first device that joins waits for this one to listen."""


class Devices:
    """The owner's devices, from this one's point of view."""

    def __init__(self, kernel: Kernel, *, draw: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self._kernel = kernel
        self._draw = draw
        self._change = asyncio.Lock()
        self._members: frozenset[str] | None = None
        self.will_listen = False
        """Whether this engine listens for other devices as soon as there is one."""

    # Telling

    async def space(self, _command: api.ListDevices | None = None) -> api.SpaceSnapshot:
        """Return all devices, members first, in the order of adding."""
        membership = await self.membership()
        keys = self._kernel.storage.keys
        return api.SpaceSnapshot(
            owner=membership.space,
            vault_key=keys.vault.id,
            words_pending=keys.words_pending,
            devices=self._snapshots(membership),
        )

    async def membership(self) -> Membership:
        """Return what is known of who belongs to the space."""
        membership = await self._kernel.members(lambda store: store.membership())
        self._members = frozenset(one.id for one in membership.members)
        return membership

    def is_member(self, device_id: str) -> bool:
        """Whether a device belongs to the space, as of the last look; a space of one device admits nobody else."""
        return self._members is None or device_id in self._members

    def _snapshots(self, membership: Membership) -> tuple[api.DeviceSnapshot, ...]:
        names = {one.id: one.name for one in membership.devices}
        order = sorted(membership.devices, key=lambda one: (not one.is_member, one.added_at_ms, one.id))
        return tuple(self._snapshot(one, names) for one in order)

    def _snapshot(self, one: Standing, names: dict[str, str]) -> api.DeviceSnapshot:
        return api.DeviceSnapshot(
            id=one.id,
            name=one.name,
            this=one.id == self._kernel.device.id,
            state="member" if one.is_member else "revoked",
            added_at_ms=one.added_at_ms,
            added_by=names.get(one.added_by, one.added_by) or "words",
            revoked_at_ms=one.revoked_at_ms,
            revoked_by=None if one.is_member else names.get(one.revoked_by, one.revoked_by) or "words",
        )

    # The words

    async def show_words(self, _command: api.ShowWords) -> api.WordsSnapshot:
        """Return the words while they wait; raises ``ExpectedError`` already-done afterwards."""
        return api.WordsSnapshot(words=words_of(await self._waiting_secret()))

    async def confirm_words(self, command: api.ConfirmWords) -> bool:
        """Delete the owner's secret from this device; raises ``ExpectedError`` bad-words, already-done."""
        if len(command.words) < MIN_CONFIRMED_WORDS:
            raise ExpectedError(ErrorCode.BAD_WORDS, f"Type at least {MIN_CONFIRMED_WORDS} of the 24 words.")
        check_words(await self._waiting_secret(), command.words)
        await self._kernel.store(lambda storage: storage.forget_owner_secret())
        self._kernel.changed.set()
        return True

    async def _waiting_secret(self) -> bytes:
        if not self._kernel.storage.keys.words_pending:
            raise ExpectedError(
                ErrorCode.ALREADY_DONE,
                "The 24 words are not on this device: they were confirmed and deleted, or belong to the device that "
                "let this one in. They are wherever you wrote them down.",
            )
        return await self._kernel.store(lambda storage: storage.owner_secret())

    async def restore(self, command: api.RestoreOwner) -> api.SpaceSnapshot:
        """Make this device one of the owner whose words these are.

        Raises ``ExpectedError`` bad-words, other-space (it shares a library of another owner), revoked (by the words).
        """
        secret = secret_of(command.words)
        owner, signer = owner_keys(secret), owner_signer(secret)
        async with self._change:
            if owner == self._kernel.storage.keys.owner:
                await self._kernel.members(lambda store: self._reclaim(store, signer))
                await self._kernel.store(lambda storage: storage.forget_owner_secret())
            else:
                await self._found(owner, signer)
            await self._follow()
        return await self.space()

    def _reclaim(self, store: MembershipStore, owner: Signer) -> None:
        """Let the owner's word bring this device in, or back."""
        public = self._kernel.identity.keys.public
        standing = store.membership().of(public.hex())
        if standing is not None and not standing.is_member:
            undone = overrule(
                store.statements(), owner, space=store.space, public=public.hex(), now_ms=self._kernel.clock.wall_ms()
            )
            store.state(*undone)
        if not store.membership().admits(public):
            store.state(self._founding(store.statements(), owner))
        if not store.membership().admits(public):
            raise ExpectedError(
                ErrorCode.REVOKED,
                "The key of this device stays out. End Hearthreel here, delete device.json and keys/identity.json in "
                "the data directory (it becomes a new device; its films stay), and give the words again.",
            )

    async def _found(self, owner: OwnerKeys, signer: Signer) -> None:
        """Take over another owner's keys; the vault key stays, since only this device has it."""
        await self._check_unshared()
        statement = self._founding((), signer)
        await self._enter(owner, self._kernel.storage.keys.vault, (statement.encoded,))

    def _founding(self, known: Iterable[Statement], owner: Signer) -> Statement:
        return found_space(
            tuple(known),
            owner,
            device=self._kernel.identity.keys.public,
            name=self._kernel.device.name,
            now_ms=self._kernel.clock.wall_ms(),
        )

    # Revoking

    async def revoke(self, command: api.RevokeDevice) -> api.RevokedSnapshot:
        """Shut a device out and rotate the vault key.

        Raises ``ExpectedError`` no-such-id, ambiguous-id, already-done, not-a-member, bad-words, other-space.
        """
        signer = self._signer(command.words)
        async with self._change:
            device_id = await self._kernel.members(lambda store: self._revoke(store, signer, command.device_id))
            await self._follow()
        space = await self.space()
        films = await self._kernel.queue(lambda store: sum(1 for entry in store.library()))
        device = next(one for one in space.devices if one.id == device_id)
        return api.RevokedSnapshot(device=device, vault_key=space.vault_key, still_holds=_still_holds(device, films))

    def _signer(self, words: str | None) -> Signer:
        if words is None:
            return self._kernel.identity.keys
        signer = owner_signer(secret_of(words))
        if signer.public != self._kernel.storage.keys.owner.signing:
            raise ExpectedError(ErrorCode.OTHER_SPACE, "These are the words of another owner.")
        return signer

    def _revoke(self, store: MembershipStore, signer: Signer, prefix: str) -> str:
        membership = store.membership()
        device_id = resolve_id_prefix(prefix, [one.id for one in membership.devices])
        device = next(one for one in membership.devices if one.id == device_id)
        is_owners = signer.public.hex() == store.space
        if device_id == self._kernel.device.id:
            raise ExpectedError(ErrorCode.NOT_DONE, "That is this device; shut it out from another one.")
        if not device.is_member and not is_owners:
            raise ExpectedError(ErrorCode.ALREADY_DONE, f"{device.name} is shut out already.")
        if not is_owners:
            self._check_member(membership)
        store.state(
            revoke_device(
                store.statements(),
                signer,
                space=store.space,
                public=device.public,
                now_ms=self._kernel.clock.wall_ms(),
            )
        )
        return device_id

    def _check_member(self, membership: Membership) -> None:
        if not membership.admits(self._kernel.identity.keys.public):
            raise ExpectedError(
                ErrorCode.NOT_A_MEMBER,
                "This device does not belong to the space (any more), so it has no say in it. With the 24 words it "
                "has: “hearthreel devices restore”, or “hearthreel devices revoke ID --words”.",
            )

    # Pairing

    async def let_in(self, asked: Asked) -> Welcome:
        """Sign and store that a device belongs to the space; return what it needs.

        Raises ``ExpectedError`` not-a-member (this device is none), revoked, other-space, disk errors.
        """
        from app.sync.pairing import Welcome  # noqa: PLC0415 (see app.engine.local)

        async with self._change:
            await self._kernel.members(lambda store: self._add(store, asked))
            await self._follow()
            encoded = await self._kernel.members(lambda store: [one.encoded for one in store.statements()])
        await self._await_listening()
        owner = self._kernel.storage.keys.owner
        return Welcome(
            owner_signing=owner.signing,
            owner_sealing=owner.sealing,
            device=self._kernel.identity.keys.public,
            statements=tuple(encoded),
            addresses=self._addresses(),
        )

    def _add(self, store: MembershipStore, asked: Asked) -> None:
        if asked.space == store.space:
            store.add_statements(asked.statements)
        membership = store.membership()
        self._check_member(membership)
        if asked.space not in {"", store.space}:
            raise ExpectedError(
                ErrorCode.OTHER_SPACE, f"{asked.name} shares its films with devices of another owner and did not join."
            )
        standing = membership.of(asked.device.hex())
        if standing is not None and not standing.is_member:
            raise ExpectedError(
                ErrorCode.REVOKED, f"{asked.name} was shut out, and its key stays out; it says what to do."
            )
        if standing is None:
            store.state(
                add_device(
                    store.statements(),
                    self._kernel.identity.keys,
                    space=store.space,
                    public=asked.device,
                    name=asked.name,
                    now_ms=self._kernel.clock.wall_ms(),
                )
            )

    async def _await_listening(self) -> None:
        """Give this engine a moment to listen, so that the new device learns where; it finds out later if need be."""
        if not self.will_listen:
            return
        with contextlib.suppress(TimeoutError), self._kernel.changed.watch() as changed:
            async with asyncio.timeout(LISTEN_S):
                while not self._kernel.session_port:
                    changed.clear()
                    await changed.wait()

    def _addresses(self) -> tuple[Address, ...]:
        from app.sync.pairing_discovery import local_hosts  # noqa: PLC0415 (see app.engine.local)

        port = self._kernel.session_port
        return tuple(Address(host=host, port=port) for host in local_hosts()[:4]) if port else ()

    async def shared(self) -> tuple[str, tuple[bytes, ...]]:
        """Return the space that this device shares with others, or was shut out of, and what it knows of it.

        Both are empty while it is alone.
        """

        def look(store: MembershipStore) -> tuple[str, tuple[bytes, ...]]:
            if len(store.membership().devices) < 2:
                return "", ()
            return store.space, tuple(one.encoded for one in store.statements())

        return await self._kernel.members(look)

    async def enter(self, welcome: Welcome, host: str) -> Standing:
        """Check and store the space that this device was let into; return the inviter.

        Raises ``ExpectedError`` bad-message when it is not what an inviter sends, other-space, disk errors.
        """
        space = welcome.owner_signing.hex()
        membership = judge((decode_statement(one, space=space) for one in welcome.statements), space)
        inviter = membership.of(welcome.device.hex())
        granted = membership.vault_key
        vault = open_granted(granted, self._kernel.identity.keys) if granted else None
        me = self._kernel.identity.keys.public
        if vault is None or inviter is None or not inviter.is_member or not membership.admits(me):
            raise ExpectedError(
                ErrorCode.BAD_MESSAGE, "The other device sent a space that makes no sense; try again with one version."
            )
        async with self._change:
            if welcome.owner != self._kernel.storage.keys.owner:
                await self._check_unshared()
            await self._enter(welcome.owner, vault, welcome.statements)
            await self._remember(inviter.id, welcome.addresses, host)
            await self._follow()
        return inviter

    async def check_member(self) -> None:
        """Raise ``ExpectedError`` not-a-member unless this device belongs to the space."""
        self._check_member(await self.membership())

    async def _check_unshared(self) -> None:
        from app.sync.pairing import OTHER_SPACE  # noqa: PLC0415 (see app.engine.local)

        space, _ = await self.shared()
        if space:
            raise ExpectedError(ErrorCode.OTHER_SPACE, OTHER_SPACE)

    async def _enter(self, owner: OwnerKeys, vault: VaultKey, statements: tuple[bytes, ...]) -> None:
        """Change spaces: statements, then keys, then the old statements go; a crash leaves the old or the new."""
        await self._kernel.members(lambda store: store.enter(owner.signing.hex(), statements))
        await self._kernel.store(lambda storage: storage.adopt_keys(owner=owner, vault=vault))
        await self._kernel.members(lambda store: store.forget_others())
        self._kernel.changed.set()

    async def _remember(self, device: str, addresses: Iterable[Address], host: str) -> None:
        known = list(addresses)
        reached = [Address(host=host, port=known[0].port)] if known else []
        now_ms = self._kernel.clock.wall_ms()

        def remember(store: MembershipStore) -> None:
            for number, address in enumerate(reversed([*reached, *known])):
                store.remember_address(device, address, now_ms=now_ms + number)

        await self._kernel.members(remember)

    # Following

    async def take_statements(self, encoded: Iterable[bytes]) -> tuple[Statement, ...]:
        """Keep what another device knows, and do what follows from it; return what is new.

        Raises ``ExpectedError`` as ``MembershipStore.add_statements``.
        """
        offered = list(encoded)
        async with self._change:
            fresh = await self._kernel.members(lambda store: store.add_statements(offered))
            if fresh:
                await self._follow()
        return fresh

    async def follow(self) -> None:
        """Do what follows from what is known (see the module); for the start."""
        async with self._change:
            await self._follow()

    async def _follow(self) -> None:
        await self._follow_vault_key()
        self._kernel.changed.set()

    async def _follow_vault_key(self) -> None:
        membership = await self.membership()
        keys, mine = self._kernel.identity.keys, self._kernel.storage.keys.vault
        if not membership.admits(keys.public) or len(membership.devices) == 1:
            return
        newest = membership.vault_key
        if newest is not None:
            granted = open_granted(newest, keys)
            if granted is None:
                return  # whoever has it gives it to this device when it hears of it
            await self._use(granted)
            await self._grant(granted)
            return
        if membership.keys or membership.revoked:
            mine = VaultKey(self._draw(KEY_BYTES))
        await self._grant(mine)
        await self._use(mine)

    async def _use(self, key: VaultKey) -> None:
        keys = self._kernel.storage.keys
        if key.id != keys.vault.id:
            await self._kernel.store(lambda storage: storage.adopt_keys(owner=keys.owner, vault=key))
            _log.info("new content is sealed with vault key %s from now on", key.id)

    async def _grant(self, key: VaultKey) -> None:
        def grant(store: MembershipStore) -> None:
            made = grant_key(store.statements(), self._kernel.identity.keys, store.membership(), key)
            if made:
                store.state(*made)

        await self._kernel.members(grant)


def _still_holds(device: api.DeviceSnapshot, films: int) -> str:
    return (
        f"{device.name} gets nothing new; what is added from now on is sealed with a key that it does not have. What "
        f"it holds it keeps: titles, pictures and keys of the films that it has heard of (up to {films}), and what "
        "parts of them lie on its disk; nobody can take that back from afar. Your other devices shut it out as soon as "
        "they have heard of this; one that is away now may still talk to it until then. If it was stolen, count those "
        "films as seen; if it was sold or given away, wipe its disk."
    )
