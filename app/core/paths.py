"""Where things lie in a data directory.

::

    DATA/hearthreel.db     jobs, tasks, media, vault index, settings (SQLite, WAL)
    DATA/settings.json     what `hearthreel config` shows and changes
    DATA/device.json       this device's name, id and public key
    DATA/reserve           space put aside, so that a full disk can still be tidied
    DATA/keys/             secrets of the space, files of mode 0600
    DATA/vault/ab/abcd…    shards
    DATA/engine.lock       held by the one engine of this directory
    DATA/engine.json       where that engine listens, and the token that lets a client in (mode 0600)
    DATA/children.json     media children of the running engine, swept when it was killed
    DATA/logs/             what happened, for reports
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs

DATA_DIR_VARIABLE = "HEARTHREEL_DATA_DIR"


def default_data_dir() -> Path:
    """Return the data directory when none was named: the environment's choice, else the system's usual place."""
    named = os.environ.get(DATA_DIR_VARIABLE)
    return Path(named) if named else Path(platformdirs.user_data_dir("hearthreel", appauthor=False))


@dataclass(frozen=True, kw_only=True)
class DataDir:
    """One data directory."""

    root: Path

    @property
    def database(self) -> Path:
        """The SQLite file."""
        return self.root / "hearthreel.db"

    @property
    def device(self) -> Path:
        """Name and id of this device."""
        return self.root / "device.json"

    @property
    def settings(self) -> Path:
        """Settings of this installation."""
        return self.root / "settings.json"

    @property
    def keys(self) -> Path:
        """Folder of secrets."""
        return self.root / "keys"

    @property
    def vault(self) -> Path:
        """Folder of shards."""
        return self.root / "vault"

    @property
    def lock(self) -> Path:
        """Lock file of the engine."""
        return self.root / "engine.lock"

    @property
    def endpoint(self) -> Path:
        """Port and token of the running engine."""
        return self.root / "engine.json"

    @property
    def listen_port(self) -> Path:
        """Where this device was reached last time."""
        return self.root / "listen-port"

    @property
    def children(self) -> Path:
        """Media children that run now."""
        return self.root / "children.json"

    @property
    def logs(self) -> Path:
        """Folder of logs."""
        return self.root / "logs"
