"""Films, data directories and engines that the engine's tests share."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

import pytest

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from app.core.clock import ManualClock  # noqa: E402 (needs the path above, like the next two)
from tests.engine.stage import add, engine_on, finished, make_busy_film  # noqa: E402
from tests.judges.barcode import make_source  # noqa: E402


@pytest.fixture(scope="session")
def media(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("media")


@pytest.fixture(scope="session")
def small_film(media: Path) -> Path:
    """Six seconds that can be passed through, about a second of work in all."""
    path = media / "small.mp4"
    make_source(path, seconds=6, size=(320, 180))
    return path


@pytest.fixture(scope="session")
def busy_film(media: Path) -> Path:
    """Several chunks that must be encoded, seconds of work each."""
    path = media / "busy.mp4"
    make_busy_film(path, seconds=70)
    return path


@pytest.fixture(scope="session")
def short_busy_film(media: Path) -> Path:
    """Return a film of two chunks that must be encoded, two seconds of work in all."""
    path = media / "short busy.mp4"
    make_busy_film(path, seconds=16)
    return path


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="session")
def finished_template(tmp_path_factory: pytest.TempPathFactory, small_film: Path) -> Path:
    """Make, once, a data directory whose library holds the small film."""

    async def make(root: Path) -> None:
        async with engine_on(root) as engine:
            job = await finished(engine, await add(engine, small_film))
            assert job.state == "done", job

    root = tmp_path_factory.mktemp("template") / "data"
    asyncio.run(make(root))
    return root


@pytest.fixture
def library_root(finished_template: Path, tmp_path: Path) -> Path:
    """Return a data directory of one's own whose library holds the small film."""
    return Path(shutil.copytree(finished_template, tmp_path / "library"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return where a fresh data directory will be."""
    return tmp_path / "data"
