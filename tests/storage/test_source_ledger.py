"""Where sources are, and whether they still are what was added."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.storage.shared_database import SharedDatabase
from app.storage.source import fingerprint, look_at
from app.storage.source_ledger import KnownSource, SourceLedger, SourceState


@pytest.fixture
def ledger(shared: SharedDatabase) -> SourceLedger:
    return SourceLedger(shared)


def added(ledger: SourceLedger, path: Path, job_id: str = "job") -> KnownSource:
    raw = os.fsencode(path)
    source = KnownSource(job_id=job_id, fingerprint=fingerprint(raw), path=raw, seen=look_at(raw))
    ledger.remember(source)
    return source


@pytest.fixture
def film(tmp_path: Path) -> Path:
    path = tmp_path / "film.mp4"
    path.write_bytes(b"film" * 100)
    return path


def test_a_source_is_found_by_job_and_by_content(ledger: SourceLedger, film: Path) -> None:
    source = added(ledger, film)
    assert ledger.find("job") == source
    assert ledger.find("other") is None
    assert ledger.find_by_fingerprint(source.fingerprint) == (source,)
    ledger.forget("job")
    assert ledger.find("job") is None
    assert film.exists()


@pytest.mark.skipif(os.name == "nt", reason="names that are no text exist elsewhere")
def test_a_name_that_is_no_text_survives(ledger: SourceLedger, tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/\xff\n\xe2\x80\xae.mp4"
    Path(os.fsdecode(raw)).write_bytes(b"film")
    source = added(ledger, Path(os.fsdecode(raw)))
    assert ledger.find("job") == source
    assert source.path == raw
    assert ledger.state(source) == SourceState.PRESENT


def test_an_untouched_source_is_present(ledger: SourceLedger, film: Path) -> None:
    assert ledger.state(added(ledger, film)) == SourceState.PRESENT


def test_a_touched_source_with_the_same_content_is_present_and_the_look_is_remembered(
    ledger: SourceLedger, film: Path
) -> None:
    source = added(ledger, film)
    os.utime(film, ns=(0, 1_000_000_000))
    assert ledger.state(source) == SourceState.PRESENT
    again = ledger.find("job")
    assert again is not None
    assert again.seen == look_at(source.path)


def test_a_source_put_back_from_a_backup_is_present(ledger: SourceLedger, film: Path) -> None:
    source = added(ledger, film)
    content = film.read_bytes()
    film.unlink()
    assert ledger.state(source) == SourceState.GONE
    film.write_bytes(content)
    assert ledger.state(source) == SourceState.PRESENT


@pytest.mark.parametrize("content", [b"", b"other", b"filn" * 100])
def test_other_content_is_changed(ledger: SourceLedger, film: Path, content: bytes) -> None:
    source = added(ledger, film)
    film.write_bytes(content)
    os.utime(film, ns=(0, 1_000_000_000))
    assert ledger.state(source) == SourceState.CHANGED


def test_a_source_whose_folder_is_gone_is_gone(ledger: SourceLedger, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "film.mp4").write_bytes(b"film")
    source = added(ledger, tmp_path / "disk" / "film.mp4")
    (tmp_path / "disk").rename(tmp_path / "unplugged")
    assert ledger.state(source) == SourceState.GONE


def test_manifests_of_sources_are_live_roots(ledger: SourceLedger, film: Path) -> None:
    source = added(ledger, film)
    assert ledger.capabilities() == ()
    values = {name: getattr(source, name) for name in source.__struct_fields__}
    ledger.remember(KnownSource(**{**values, "capability": "hr1.x"}))
    assert ledger.capabilities() == ("hr1.x",)
