"""The command line in this process and as a program of its own."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from tests.engine.conftest import (  # noqa: E402
    busy_film,
    finished_template,
    library_root,
    media,
    root,
    short_busy_film,
    small_film,
)

__all__ = ["busy_film", "finished_template", "library_root", "media", "root", "short_busy_film", "small_film"]
