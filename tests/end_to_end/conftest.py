"""Lets the end-to-end tests be imported and share the judges and the engine's stage; makes their films once."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from tests.end_to_end.shows import Show, make_film, show_of  # noqa: E402 (needs the path above, like the next)
from tests.engine.stage import add, engine_on, finished  # noqa: E402


@pytest.fixture(scope="session")
def copied_film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a film whose top rendition is a copy of it."""
    return make_film(tmp_path_factory.mktemp("copied") / "copied.mp4", gop=60)


@pytest.fixture(scope="session")
def encoded_film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a film of ten bits, of which nothing can be copied but the sound."""
    return make_film(tmp_path_factory.mktemp("encoded") / "encoded.mp4", gop=250, pixel_format="yuv420p10le")


def _finish(root: Path, film: Path) -> Path:
    async def go() -> None:
        async with engine_on(root) as engine:
            job = await finished(engine, await add(engine, film))
            assert job.state == "done", job

    asyncio.run(go())
    return root


@pytest.fixture(scope="session")
def copied_library(tmp_path_factory: pytest.TempPathFactory, copied_film: Path) -> Path:
    return _finish(tmp_path_factory.mktemp("library") / "copied", copied_film)


@pytest.fixture(scope="session")
def encoded_library(tmp_path_factory: pytest.TempPathFactory, encoded_film: Path) -> Path:
    return _finish(tmp_path_factory.mktemp("library") / "encoded", encoded_film)


@asynccontextmanager
async def _finished_show(template: Path, root: Path) -> AsyncIterator[Show]:
    await asyncio.to_thread(shutil.copytree, template, root)
    async with engine_on(root, work=False) as engine, show_of(engine) as show:
        yield show


@pytest.fixture
async def copied(copied_library: Path, tmp_path: Path) -> AsyncIterator[Show]:
    """Show the finished film whose top rendition is a copy."""
    async with _finished_show(copied_library, tmp_path / "data") as show:
        yield show


@pytest.fixture
async def encoded(encoded_library: Path, tmp_path: Path) -> AsyncIterator[Show]:
    """Show the finished film that was encoded."""
    async with _finished_show(encoded_library, tmp_path / "data") as show:
        yield show


Premiere = Callable[[Path], AbstractAsyncContextManager[Show]]


@pytest.fixture
def premiere(tmp_path: Path) -> Premiere:
    """Return a way to show a film at once, while it is being transcoded."""

    @asynccontextmanager
    async def begin(film: Path) -> AsyncIterator[Show]:
        async with engine_on(tmp_path / "data") as engine:
            await add(engine, film)
            async with show_of(engine) as show:
                yield show

    return begin
