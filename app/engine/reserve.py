"""A little disk space put aside, so that a disk which others filled up can still be tidied.

Everything an engine does writes a few bytes first; on a disk with nothing left it could not even start to delete a
film. The reserve is given up then, and put aside again when there is room.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

SIZE_BYTES = 8 << 20
_ROOM_BYTES = 16 * SIZE_BYTES


class Reserve:
    """The file that holds the space."""

    def __init__(self, root: Path) -> None:
        self._path = root / "reserve"

    def put_aside(self) -> None:
        """Take the space, if it is not taken and there is plenty."""
        with contextlib.suppress(OSError):
            if self._path.exists() or shutil.disk_usage(self._path.parent).free < _ROOM_BYTES:
                return
            with self._path.open("wb") as file:
                file.write(bytes(SIZE_BYTES))
                file.flush()
                os.fsync(file.fileno())

    def give_up(self) -> bool:
        """Give the space back; False when there was none."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True
