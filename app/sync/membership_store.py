"""The statements of a space, and where other devices were last reached, in the data directory's SQLite file.

What the session protocol replicates is the set of statements: ``statements()`` to give, ``add_statements()`` to take.
Taking a statement twice, or in another order, makes no difference. Void ones are kept too: whether a statement is void
is judged anew with everything that is known (``app.sync.membership``), and must not depend on what was known first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from app.core.database import Database, Migrations
from app.core.errors import ErrorCode, ExpectedError
from app.sync.addresses import Address
from app.sync.membership import Membership, judge
from app.sync.statements import Add, Statement, decode_statement

MAX_STATEMENTS = 20_000
MAX_PER_SIGNER = 2_000
"""Far above what people do, and low enough that a hostile device cannot make judging slow for long."""
MAX_ADDRESSES = 8
"""Remembered for each device, the latest first."""

SYNC_MIGRATIONS = Migrations("sync")


@SYNC_MIGRATIONS()
def create_sync_tables(tables: Any) -> None:
    """Create all tables of the first version."""
    tables.execute(
        """
        CREATE TABLE membership_statements (
            id TEXT PRIMARY KEY,
            space TEXT NOT NULL,
            document BLOB NOT NULL
        ) WITHOUT ROWID
        """
    )
    tables.execute("CREATE INDEX membership_statements_by_space ON membership_statements (space)")
    tables.execute(
        """
        CREATE TABLE device_addresses (
            device TEXT NOT NULL,
            host TEXT NOT NULL,
            port INTEGER NOT NULL,
            seen_at_ms INTEGER NOT NULL,
            PRIMARY KEY (device, host, port)
        ) WITHOUT ROWID
        """
    )


class MembershipStore:
    """Statements and addresses. Uses ``database`` on whichever thread that belongs to."""

    def __init__(self, database: Database, *, space: str) -> None:
        self._database = database
        self._space = space
        database.migrate(SYNC_MIGRATIONS)
        self._statements: dict[str, Statement] = {}
        self._membership: Membership | None = None
        self._load()

    @property
    def space(self) -> str:
        """The owner's public signing key in hex."""
        return self._space

    def statements(self) -> tuple[Statement, ...]:
        """Return all statements of the space, each after its predecessor."""
        return tuple(sorted(self._statements.values(), key=lambda one: (one.number, one.id)))

    def membership(self) -> Membership:
        """Return what the statements say."""
        if self._membership is None:
            self._membership = judge(self._statements.values(), self._space)
        return self._membership

    def add_statements(self, encoded: Iterable[bytes]) -> tuple[Statement, ...]:
        """Keep statements, durably; return those that are new.

        Raises ``ExpectedError`` bad-message, other-space, data-too-new if any of them is none of this space (then none
        is kept), too-large when there are more than anybody needs, and disk errors. Statements of signers whom nobody
        has ever added are left out: they mean nothing and could fill the disk.
        """
        offered = {one.id: one for one in (decode_statement(data, space=self._space) for data in encoded)}
        return self._keep(offered)

    def state(self, *statements: Statement) -> None:
        """Keep statements that this device has just made."""
        self._keep({one.id: one for one in statements})

    def enter(self, space: str, encoded: Iterable[bytes]) -> None:
        """Become a store of another space, with these statements; those of the old one stay until ``forget_others``."""
        offered = {one.id: one for one in (decode_statement(data, space=space) for data in encoded)}
        with self._database.transaction() as database:
            for one in offered.values():
                database.upsert("membership_statements", _row(one), key="id")
        self._space = space
        self._load()

    def forget_others(self) -> None:
        """Forget the statements of spaces that this device was in before."""
        with self._database.transaction() as database:
            database.execute("DELETE FROM membership_statements WHERE space <> ?", (self._space,))

    def remember_address(self, device: str, address: Address, *, now_ms: int) -> None:
        """Note where a device (by its id) was reached."""
        with self._database.transaction() as database:
            row = {"device": device, "host": address.host, "port": address.port, "seen_at_ms": now_ms}
            database.upsert("device_addresses", row, key=("device", "host", "port"))
            database.execute(
                """
                DELETE FROM device_addresses WHERE device = ?1 AND (host, port) NOT IN (
                    SELECT host, port FROM device_addresses WHERE device = ?1 ORDER BY seen_at_ms DESC LIMIT ?2)
                """,
                (device, MAX_ADDRESSES),
            )

    def addresses_of(self, device: str) -> tuple[Address, ...]:
        """Return where a device was reached, the latest first."""
        rows = self._database.rows(
            "SELECT host, port FROM device_addresses WHERE device = ? ORDER BY seen_at_ms DESC, host, port", (device,)
        )
        return tuple(Address(host=row["host"], port=row["port"]) for row in rows)

    def _keep(self, offered: dict[str, Statement]) -> tuple[Statement, ...]:
        fresh = self._meaningful({name: one for name, one in offered.items() if name not in self._statements})
        if not fresh:
            return ()
        self._check_room(fresh)
        with self._database.transaction() as database:
            for one in fresh:
                database.upsert("membership_statements", _row(one), key="id")
        self._statements.update((one.id, one) for one in fresh)
        self._membership = None
        return tuple(fresh)

    def _meaningful(self, fresh: dict[str, Statement]) -> list[Statement]:
        """Return the statements whose signers are the owner or somebody whom a known statement adds."""
        added = {one.body.device for one in (*self._statements.values(), *fresh.values()) if isinstance(one.body, Add)}
        return [one for one in fresh.values() if one.is_owners or one.signer in added]

    def _check_room(self, fresh: list[Statement]) -> None:
        counts: dict[str, int] = {}
        for one in (*self._statements.values(), *fresh):
            counts[one.signer] = counts.get(one.signer, 0) + 1
        if sum(counts.values()) > MAX_STATEMENTS or max(counts.values()) > MAX_PER_SIGNER:
            raise ExpectedError(
                ErrorCode.TOO_LARGE, "A device states more about who belongs to your devices than can be true."
            )

    def _load(self) -> None:
        rows = self._database.rows(
            "SELECT CAST(document AS BLOB) AS document FROM membership_statements WHERE space = ?", (self._space,)
        )
        try:
            found = [decode_statement(bytes(row["document"]), space=self._space) for row in rows]
        except ExpectedError as error:
            if error.code == ErrorCode.DATA_TOO_NEW:
                raise
            raise ExpectedError(
                ErrorCode.DATABASE_DAMAGED,
                f"What the database says about your devices is damaged ({error}). Restore a backup of the data "
                "directory. Your films and sources stay where they are.",
            ) from error
        self._statements = {one.id: one for one in found}
        self._membership = None


def _row(statement: Statement) -> dict[str, Any]:
    return {"id": statement.id, "space": statement.space, "document": statement.encoded}
