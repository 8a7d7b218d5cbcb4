"""What all parts of an engine share: the stores behind their threads, the clock, and the word that something changed.

Threads: the queue belongs to one thread of its own (``queue``); vault and ledger may be used from several (``store``),
because sealing and file access release Python's lock. The event loop itself never waits for a disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from app.core.clock import Clock
from app.core.database import Database
from app.core.device import Device, settle_device, start_device
from app.core.errors import ErrorCode, ErrorInfo, ExpectedError
from app.core.paths import DataDir
from app.core.settings import SettingsFile
from app.queue.sqlite_store import SqliteJobStore, rename_device
from app.queue.store import JobStore
from app.storage.opening import Storage, open_storage
from app.storage.signing import owner_signer
from app.sync.identity import DeviceIdentity, open_identity
from app.sync.membership import found_space
from app.sync.membership_store import MembershipStore
from app.transcode.register import ChildRegister
from app.transcode.supervisor import Supervisor

S = TypeVar("S")
T = TypeVar("T")

_STORAGE_THREADS = 8
"""More than cores: most of the time they wait until the disk has it for sure."""
CHECKED_AT_START_BYTES = 64 << 20
"""Up to this size the whole database is checked before anything is done with it; that takes some tenths of a second."""
TROUBLES = {ErrorCode.DISK_FULL, ErrorCode.READ_ONLY, ErrorCode.DATABASE_LOCKED}
"""Errors of the machine, not of a job: work stops and goes on by itself."""


RESTORE = (
    "Restore it from a backup; or, to start anew, move the whole data directory away and add the films again. "
    "Your own files are where they were."
)


class ChangeFlag:
    """Tells any number of waiting tasks that something changed."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Event] = set()

    @contextmanager
    def watch(self) -> Iterator[asyncio.Event]:
        """Lend an event that is set at every change; clear it before looking."""
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            yield event
        finally:
            self._waiting.discard(event)

    def set(self) -> None:
        """Wake all who watch."""
        for event in self._waiting:
            event.set()


class Kernel:
    """Open stores of one data directory; made and closed by the engine that holds its lock."""

    def __init__(self, data: DataDir, *, clock: Clock, supervisor: Supervisor | None = None) -> None:
        """Open everything; runs in a thread of its own and may raise ``ExpectedError``."""
        self.data = data
        self.clock = clock
        self.settings = SettingsFile(data.settings)
        self.settings.all()
        self._check_vault_has_database()
        self.identity: DeviceIdentity = open_identity(data.keys)
        device = start_device(data.device, id=self.identity.id, key=self.identity.keys.public.hex())
        with ExitStack() as undo:
            self._queue_database = Database(data.database)
            undo.callback(self._queue_database.close)
            self._check_database()
            self.device: Device = self._settled(device)
            self._store: JobStore = SqliteJobStore(
                database=self._queue_database, device=self.device.id, boot=self.device.boot, clock=clock
            )
            self._store.end_forgotten_leases()
            self._storage_database = Database(data.database)
            undo.callback(self._storage_database.close)
            self.storage: Storage = open_storage(data, self._storage_database, clock=clock)
            self.storage.segments.keep_only(())
            self._members = self._open_members()
            undo.pop_all()
        register = ChildRegister(data.children)
        register.sweep()
        self.supervisor = supervisor or Supervisor(register=register)
        self.changed = ChangeFlag()
        """Set when a job, a task or a segment changed."""
        self.session_port = 0
        """Where this device listens for sessions of other devices; 0 while it does not."""
        self.version = 0
        """Grows with every change of the queue; what was read from it at an older version may be out of date."""
        self.trouble: ErrorInfo | None = None
        self._queue_thread = ThreadPoolExecutor(1, thread_name_prefix="queue")
        self._storage_threads = ThreadPoolExecutor(_STORAGE_THREADS, thread_name_prefix="storage")

    def _check_database(self) -> None:
        """Check a small database now; a large one takes seconds and is checked by ``check_large_database``."""
        if not self._is_large:
            _raise_damage(self.data, self._queue_database.check())

    @property
    def _is_large(self) -> bool:
        return self.data.database.stat().st_size > CHECKED_AT_START_BYTES

    async def check_large_database(self) -> None:
        """Check a database that was too large for that at start, beside all else; raises database-damaged."""
        if self._is_large:
            _raise_damage(self.data, await asyncio.to_thread(_check_apart, self.data))

    def _open_members(self) -> MembershipStore:
        """Open what is known of the owner's devices; at the first start, say that this is the first of them."""
        keys = self.storage.keys
        members = MembershipStore(self._queue_database, space=keys.owner.signing.hex())
        if keys.words_pending and members.membership().of(self.identity.keys.public.hex()) is None:
            first = found_space(
                members.statements(),
                owner_signer(self.storage.owner_secret()),
                device=self.identity.keys.public,
                name=self.device.name,
                now_ms=self.clock.wall_ms(),
            )
            members.state(first)
        return members

    def _settled(self, device: Device) -> Device:
        """Give the rows of a data directory from before devices had keys to the device that has one now."""
        if not device.former:
            return device
        rename_device(self._queue_database, device.former, device.id)
        return settle_device(self.data.device, device)

    def _check_vault_has_database(self) -> None:
        """Refuse to take a full vault whose database is gone or empty for a new library."""
        database = self.data.database
        is_new = not database.exists() or database.stat().st_size == 0
        if is_new and any(self.data.vault.glob("??/*")):
            raise ExpectedError(
                ErrorCode.DATABASE_DAMAGED,
                f"The vault holds films, but the database {database} is gone or empty. {RESTORE}",
            )

    async def queue(self, action: Callable[[JobStore], T]) -> T:
        """Run ``action`` on the queue's own thread."""
        return await _finish(self._queue_thread, action, self._store)

    async def change(self, action: Callable[[JobStore], T]) -> T:
        """Run a writing ``action`` on the queue's thread, then wake those who watch."""
        try:
            result = await self.queue(action)
        finally:
            self.version += 1
        self.changed.set()
        return result

    def note_change(self) -> None:
        """Note that the queue was changed in a ``queue`` action, and wake those who watch."""
        self.version += 1
        self.changed.set()

    async def members(self, action: Callable[[MembershipStore], T]) -> T:
        """Run ``action`` on the queue's thread, to whose database the statements about devices belong."""
        return await _finish(self._queue_thread, action, self._members)

    async def store(self, action: Callable[[Storage], T]) -> T:
        """Run ``action`` on a storage thread."""
        return await _finish(self._storage_threads, action, self.storage)

    async def close(self) -> None:
        """Close the stores; nothing may use them any more."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._close)

    def _close(self) -> None:
        self._queue_thread.shutdown()
        self._storage_threads.shutdown()
        with ExitStack() as rest:
            rest.callback(self._queue_database.close)
            rest.callback(self._storage_database.close)
            rest.callback(self.storage.close)


def _check_apart(data: DataDir) -> str | None:
    database = Database(data.database)
    try:
        return database.check()
    finally:
        database.close()


def _raise_damage(data: DataDir, damage: str | None) -> None:
    if damage:
        raise ExpectedError(
            ErrorCode.DATABASE_DAMAGED,
            f"The database {data.database} is damaged ({damage}). It was left untouched. {RESTORE}",
        )


async def _finish(threads: ThreadPoolExecutor, action: Callable[[S], T], subject: S) -> T:
    """Run ``action`` on a thread; when the caller is cancelled, it gets that only after the action has ended.

    An action cannot be stopped half-way, so without this a cancelled writer would write after its canceller cleaned up.
    Raises ``ExpectedError`` engine-gone when the kernel is closed.
    """
    try:
        future = asyncio.get_running_loop().run_in_executor(threads, action, subject)
    except RuntimeError as error:  # the threads were shut down
        raise ExpectedError(ErrorCode.ENGINE_GONE, "The engine has ended; ask again.") from error
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait({future})
        if not future.cancelled():
            future.exception()  # seen; the caller does not want to know any more
        raise
