"""Meeting devices in other networks: the rendezvous of the settings, with what this engine knows of the space."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from app.core.errors import ErrorCode, ExpectedError
from app.engine.kernel import Kernel
from app.engine.peers import Link
from app.storage.cipher import derive
from app.storage.signing import seal_to_device
from app.sync.granting import open_granted
from app.sync.meeting import Meeting
from app.sync.membership_store import MembershipStore
from app.sync.rendezvous_protocol import mailbox_of
from app.sync.signalling import Trust
from app.sync.webrtc import IceServer, WebRtcConnection

MAILBOX_PURPOSE = "HR1 mailbox"
"""A mailbox secret derives from a vault key: who is shut out does not know the next one."""


class MeetingPlace:
    """This device at its rendezvous."""

    def __init__(
        self, kernel: Kernel, *, is_member: Callable[[bytes], bool], on_link: Callable[[Link, bytes], None]
    ) -> None:
        """``on_link`` gets each link that another device opened, and that device's key."""
        self._kernel = kernel
        self._on_link = on_link
        self._secrets: tuple[bytes, ...] = ()
        keys = kernel.identity.keys
        trust = Trust(
            own_key=keys.public,
            is_member=is_member,
            mailboxes_of=self._mailboxes_of,
            seal=seal_to_device,
            open=keys.open_sealed,
        )
        self._meeting = Meeting(
            url=kernel.settings.get("rendezvous"),
            seed=keys.seed,
            trust=trust,
            on_connection=self._take,
            clock=kernel.clock,
            spread=Random().random,  # noqa: S311 (spreads attempts)
            servers=parse_ice_servers(kernel.settings.get("ice.servers")),
        )

    async def run(self) -> None:
        """Be there until cancelled."""
        self._secrets = await self._kernel.members(self._known_secrets)
        await self._meeting.run()

    async def connect(self, key: bytes) -> Link:
        """Return a link to the device of ``key``; raises ``ExpectedError`` unreachable, not-trusted."""
        return _link_of(await self._meeting.connect(key))

    def _take(self, connection: WebRtcConnection) -> None:
        self._on_link(_link_of(connection), connection.peer_key)

    def _mailboxes_of(self, key: bytes) -> tuple[bytes, ...]:
        return tuple(mailbox_of(key, secret=secret) for secret in self._secrets)

    def _known_secrets(self, store: MembershipStore) -> tuple[bytes, ...]:
        """Return the newest secret first: a device that was away while the vault key changed waits at an older one."""
        keys = self._kernel.identity.keys
        granted = (open_granted(one, keys) for one in store.membership().keys)
        known = [self._kernel.storage.keys.vault, *(one for one in granted if one is not None)]
        return tuple(dict.fromkeys(derive(one.key, MAILBOX_PURPOSE) for one in known))


def _link_of(connection: WebRtcConnection) -> Link:
    return Link(control=connection.control, bulk=connection.shards)


def parse_ice_servers(text: str) -> tuple[IceServer, ...]:
    """Return the servers that a person listed; raises ``ExpectedError`` bad-setting that says how to write them."""
    return tuple(_parse_ice_server(word) for word in text.split())


def _parse_ice_server(word: str) -> IceServer:
    kind, _, rest = word.partition(":")
    user, _, host = rest.rpartition("@")
    username, _, credential = user.partition(":")
    if kind not in {"stun", "turn"} or not host or (kind == "turn" and not credential):
        raise ExpectedError(
            ErrorCode.BAD_SETTING,
            f"“{word}” is no STUN or TURN server; write stun:HOST:PORT or turn:USER:PASSWORD@HOST:PORT.",
        )
    return IceServer(url=f"{kind}:{host}", username=username, credential=credential)
