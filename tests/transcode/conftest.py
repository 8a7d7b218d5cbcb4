"""Films that the transcode tests share, made once per run with the system's ffmpeg."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from tests.transcode.lab import write_film  # noqa: E402 (needs the path above)


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for films; without ffmpeg the test is skipped, except where a missing judge must fail."""
    missing = [name for name in ("ffmpeg", "ffprobe") if shutil.which(name) is None]
    if missing and not os.environ.get("CI"):
        pytest.skip(f"{' and '.join(missing)} must be installed to make and judge films")
    if missing:
        pytest.fail(f"{' and '.join(missing)} must be installed here")
    return tmp_path_factory.mktemp("films")


@pytest.fixture(scope="session")
def film(shelf: Path) -> Path:
    """Return 12 s of numbered pictures with beeps: MP4, closed groups of 2 s with B-frames, AAC."""
    return write_film(shelf / "film.mp4", seconds=12)
