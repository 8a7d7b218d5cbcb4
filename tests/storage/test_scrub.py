"""Scrubbing: a flipped byte, a missing shard and a stray file are found, and who is affected is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.core.clock import ManualClock
from app.media.film import Bundle, BundleEntry
from app.storage.cipher import name_of
from app.storage.vault import Vault


def path_of(tmp_path: Path, name: str) -> Path:
    return tmp_path / "vault" / name[:2] / name


def flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def one_shard(vault: Vault, capability: str) -> str:
    (name,) = vault.shards_of(capability)
    return name


@pytest.fixture
def films(vault: Vault) -> tuple[str, str]:
    """Return two roots: a file, and a bundle of one segment."""
    segment = vault.write_bytes(b"segment" * 100, pad=True)
    entry = BundleEntry(name="720", number=0, capability=segment, size_bytes=700)
    return vault.write_bytes(b"file" * 100), vault.write_bundle(Bundle(entries=(entry,)))


def test_a_healthy_vault_is_clean(vault: Vault, films: tuple[str, str]) -> None:
    report = vault.verify(films)
    assert report.clean
    assert report.shards == 3
    assert report.size_bytes == vault.usage().size_bytes
    assert report.unreached_bytes == 0


def test_a_flipped_byte_is_found_and_only_the_film_it_hurts_is_named(
    vault: Vault, films: tuple[str, str], tmp_path: Path
) -> None:
    name = one_shard(vault, films[0])
    flip_a_byte(path_of(tmp_path, name))
    report = vault.verify(films)
    assert report.damaged == (name,)
    assert report.affected == (films[0],)
    assert not report.clean
    assert report.missing == report.stray == report.repaired == ()
    assert path_of(tmp_path, name).exists()


def test_damage_in_a_bundle_and_in_its_entry_hurts_the_bundle(
    vault: Vault, films: tuple[str, str], tmp_path: Path
) -> None:
    segment = vault.read_bundle(films[1]).entries[0].capability
    flip_a_byte(path_of(tmp_path, one_shard(vault, segment)))
    report = vault.verify(films)
    assert report.affected == (films[1],)
    assert len(report.damaged) == 1


def test_a_damaged_bundle_does_not_make_its_segments_strays(
    vault: Vault, films: tuple[str, str], tmp_path: Path
) -> None:
    segment = one_shard(vault, vault.read_bundle(films[1]).entries[0].capability)
    (bundle_shard,) = vault.shards_of(films[1]) - {segment}
    flip_a_byte(path_of(tmp_path, bundle_shard))
    report = vault.verify(films, repair=True)
    assert report.damaged == (bundle_shard,)
    assert report.affected == (films[1],)
    assert report.stray == ()
    assert path_of(tmp_path, segment).exists()


def test_a_missing_shard_is_found(vault: Vault, films: tuple[str, str], tmp_path: Path) -> None:
    name = one_shard(vault, films[0])
    path_of(tmp_path, name).unlink()
    report = vault.verify(films)
    assert report.missing == (name,)
    assert report.affected == (films[0],)


def test_stray_files_and_foreign_shards_are_found(vault: Vault, films: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "vault" / "holiday.mp4").write_bytes(b"someone's film")
    foreign = b"a shard of another vault"
    garbage = "ab" * 32
    for name in (name_of(foreign), garbage):
        path_of(tmp_path, name).parent.mkdir(exist_ok=True)
        path_of(tmp_path, name).write_bytes(foreign)
    report = vault.verify(films)
    assert set(report.stray) == {"holiday.mp4", name_of(foreign), garbage}
    assert report.affected == ()
    assert not report.clean


def test_what_waits_for_collection_is_no_fault(vault: Vault, films: tuple[str, str], clock: ManualClock) -> None:
    vault.write_bytes(b"superseded")
    clock.advance(48 * 3600)
    report = vault.verify(films)
    assert report.clean
    assert report.unreached_bytes == len(b"superseded") + 16


def test_repair_sets_aside_what_is_bad_and_the_index_follows(
    vault: Vault, films: tuple[str, str], tmp_path: Path
) -> None:
    name = one_shard(vault, films[0])
    flip_a_byte(path_of(tmp_path, name))
    (tmp_path / "vault" / "holiday.mp4").write_bytes(b"someone's film")
    report = vault.verify(films, repair=True)
    assert set(report.repaired) == {name, "holiday.mp4"}
    assert {path.name for path in (tmp_path / "vault" / "quarantine").iterdir()} == {name, "holiday.mp4"}
    assert vault.usage().shards == 2
    again = vault.verify(films)
    assert (again.damaged, again.missing, again.stray) == ((), (name,), ())
    vault.write_bytes(b"file" * 100)
    assert vault.verify(films).clean


def test_a_root_that_makes_no_sense_is_affected(vault: Vault, films: tuple[str, str]) -> None:
    report = vault.verify([*films, "nonsense"])
    assert report.affected == ("nonsense",)
    assert not report.clean


def test_progress_rises_to_one_and_may_stop_the_scrub(vault: Vault) -> None:
    roots = [vault.write_bytes(os.urandom(10)) for _ in range(5)]
    told: list[float] = []
    vault.verify(roots, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert len(told) >= 5

    def stop(_share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        vault.verify(roots, progress=stop)


def test_a_lost_index_is_rebuilt_from_the_files(vault: Vault, films: tuple[str, str]) -> None:
    before = vault.usage()
    vault.flush()
    with vault._index._database.transaction() as database:
        database.execute("DELETE FROM shards")
    assert vault.usage().shards == 0
    vault.rebuild_index()
    assert vault.usage() == before
    assert vault.verify(films).clean
