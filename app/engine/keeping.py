"""Keeping copies: finished films are brought here from the devices that made them, as many devices as the owner asked.

::

    a film is finished, a device came ──► look through the library ──► this device keeps it and lacks a piece
                                                                          │ room, quota
                                                                          ▼
                                                                       bring its pieces, one after the other

Which devices keep a film follows from its id (``app.queue.keeping``), so nobody has to be asked. What a device made
itself it holds anyway; nothing is ever given up here. A film can be played before it is whole here: pieces that are
missing are brought when somebody watches.
"""

from __future__ import annotations

import asyncio
import logging

from app.core.encoding import decode_canonical
from app.core.errors import ErrorCode, ExpectedError
from app.engine.devices import Devices
from app.engine.housekeeping import bundles_in
from app.engine.kernel import Kernel
from app.engine.peers import Peers
from app.media.film import Film, PublishStage
from app.queue.keeping import keepers_of
from app.queue.store import LibraryEntry

_log = logging.getLogger(__name__)

LOOK_AGAIN_S = 5.0
"""Between two looks through the library, which is only looked through when something changed."""
REST_S = 60.0
"""After a look that could not be ended: no room, or nobody has a piece now."""
_PAGE = 100


class FilmKeeper:
    """Brings what this device is to keep, while it runs."""

    def __init__(self, kernel: Kernel, devices: Devices, peers: Peers) -> None:
        self._kernel = kernel
        self._devices = devices
        self._peers = peers
        self._whole: set[tuple[str, int, str]] = set()
        """Job, epoch and token of the films that were seen to be whole here."""

    async def run(self) -> None:
        """Keep until cancelled."""
        with self._kernel.changed.watch() as changed:
            while True:
                changed.clear()
                rest_s = LOOK_AGAIN_S
                try:
                    if self._peers.connected():
                        await self.look()
                except ExpectedError as error:
                    _log.info("copies of films are not brought now: %s", error)
                    rest_s = REST_S
                await asyncio.sleep(rest_s)
                await changed.wait()

    async def look(self) -> None:
        """Bring what is missing of the films that this device keeps.

        Raises ``ExpectedError`` missing-shard when nobody who can be reached has a piece, disk-full, read-only.
        """
        members = [one.id for one in (await self._devices.membership()).members]
        copies = self._kernel.settings.get("vault.copies")
        after: str | None = None
        while page := await self._kernel.queue(lambda store, after=after: store.library_page(after=after, limit=_PAGE)):  # type: ignore[misc]
            for entry in page:
                after = entry.job.id
                mine = self._kernel.device.id in keepers_of(entry.job.media_id, members, copies=copies)
                if mine and entry.stage is PublishStage.FULL and not entry.trashed:
                    await self._keep(entry)

    async def _keep(self, entry: LibraryEntry) -> None:
        key = (entry.job.id, entry.outcome.epoch, entry.outcome.token)
        if key in self._whole:
            return
        for bundle in bundles_in(decode_canonical(entry.outcome.value, Film)):
            await self._bring(bundle)
            for capability in await self._entries(bundle):
                await self._bring(capability)
        self._whole.add(key)

    async def _bring(self, capability: str) -> None:
        """Bring a file if it lacks anything, as far as the quota allows."""
        if await self._kernel.store(lambda storage: storage.vault.missing_of(capability)):
            await self._check_quota()
            await self._peers.bring(capability)

    async def _entries(self, bundle: str) -> list[str]:
        read = await self._kernel.store(lambda storage: storage.vault.read_bundle(bundle))
        return [entry.capability for entry in read.entries]

    async def _check_quota(self) -> None:
        quota = self._kernel.settings.get("vault.quota")
        if quota and (await self._kernel.store(lambda storage: storage.vault.usage())).size_bytes >= quota:
            raise ExpectedError(
                ErrorCode.DISK_FULL, "The vault is as large as it may be; raise vault.quota to keep more copies here."
            )
