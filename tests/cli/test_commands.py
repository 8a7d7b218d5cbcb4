"""Every command: what it prints, as text and as JSON, and how it ends."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from app.core.paths import DataDir
from tests.cli.typed import Type, run, typist
from tests.engine.stage import shards_in, variant_of


@pytest.fixture
def hearthreel(root: Path) -> Type:
    """Type commands for a fresh data directory."""
    return typist(root)


@pytest.fixture
def library(library_root: Path) -> Type:
    """Type commands for a data directory with one film."""
    return typist(library_root)


@pytest.fixture
def film(library: Type) -> dict[str, str]:
    row = library("library", "--json").row
    return {"media": row["media_id"], "job": row["job_id"]}


@pytest.fixture
def job(hearthreel: Type, small_film: Path) -> str:
    """Return the id of a job that nothing works on."""
    return str(hearthreel("--json", "add", small_film).row["job_id"])


# Adding


def test_add_says_that_nothing_works_on_it_yet(hearthreel: Type, small_film: Path) -> None:
    said = hearthreel("add", small_film)
    assert str(small_film) in said.output
    assert "Nothing works on it" in said.errors
    row = hearthreel("jobs", "--json").row
    assert (row["state"], row["title"]) == ("queued", "small")


@pytest.mark.slow
def test_add_and_wait_ends_when_the_film_is_done(hearthreel: Type, small_film: Path) -> None:
    row = hearthreel("add", "--wait", small_film, "--json").row
    assert set(row) == {"path", "job_id", "media_id", "state", "error"}
    assert (row["path"], row["state"], row["error"]) == (str(small_film), "done", None)
    again = hearthreel("--json", "add", small_film, "--wait").row
    assert (again["job_id"], again["media_id"], again["state"]) == (row["job_id"], row["media_id"], "done")
    assert again["already"] is True
    assert hearthreel("--json", "show", row["media_id"]).row["state"] == "ready"


def test_add_tells_of_each_path_in_order_and_goes_on_past_bad_ones(
    hearthreel: Type, small_film: Path, tmp_path: Path
) -> None:
    text = tmp_path / "text.mp4"
    text.write_text("This is no film.")
    good = variant_of(small_film, tmp_path / "good.mp4")
    empty = tmp_path / "empty.mp4"
    empty.touch()
    said = hearthreel("--json", "add", text, good, tmp_path / "nothing.mp4", empty, small_film, code=1)
    assert [(Path(row["path"]).name, row["state"]) for row in said.rows] == [
        ("text.mp4", "refused"),
        ("good.mp4", "queued"),
        ("nothing.mp4", "refused"),
        ("empty.mp4", "refused"),
        ("small.mp4", "queued"),
    ]
    assert [row["error"] and row["error"]["code"] for row in said.rows] == [
        "not-a-video",
        None,
        "not-found",
        "empty",
        None,
    ]
    assert [row["job_id"] is None and row["media_id"] is None for row in said.rows] == [True, False, True, True, False]
    assert len(hearthreel("--json", "jobs").rows) == 2


def test_add_takes_folders_with_everything_in_them(hearthreel: Type, small_film: Path, tmp_path: Path) -> None:
    folder = tmp_path / "films"
    (folder / "deeper").mkdir(parents=True)
    shutil.copy(small_film, folder / "b.mp4")
    variant_of(small_film, folder / "deeper" / "a.mkv")
    (folder / "notes.txt").write_text("not a film, and not tried")
    rows = hearthreel("--json", "add", folder).rows
    assert [Path(row["path"]).relative_to(folder).as_posix() for row in rows] == ["b.mp4", "deeper/a.mkv"]


def test_a_folder_without_films_is_an_error(hearthreel: Type, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    said = hearthreel("--json", "add", tmp_path / "empty", code=1)
    assert said.output == ""
    assert "not-found" in said.errors


def test_a_job_that_was_cancelled_is_retried_by_adding_it_again(hearthreel: Type, job: str, small_film: Path) -> None:
    hearthreel("job", "cancel", job)
    row = hearthreel("--json", "add", small_film).row
    assert (row["job_id"], row["state"], row["already"]) == (job, "queued", True)


def test_a_film_in_the_trash_is_restored_by_adding_it_again(
    library: Type, film: dict[str, str], small_film: Path
) -> None:
    library("remove", film["media"])
    assert library("--json", "add", small_film).row["already"] is True
    assert library("--json", "library").row["media_id"] == film["media"]


def test_add_wants_paths_and_a_known_profile(hearthreel: Type, small_film: Path) -> None:
    hearthreel("add", code=2)
    hearthreel("add", small_film, "--profile", "best", code=2)
    assert hearthreel("--json", "add", small_film, "--profile", "passthrough").row["state"] == "queued"
    assert hearthreel("--json", "jobs").row["profile"] == "passthrough"


# Jobs


def test_job_show_has_what_scripts_need(hearthreel: Type, job: str) -> None:
    row = hearthreel("--json", "job", "show", job).row
    promised = {"id", "media_id", "title", "state", "reason", "progress", "rate_x", "eta_s", "error", "tasks"}
    assert promised <= set(row)
    assert (row["id"], row["state"], row["progress"], row["error"]) == (job, "queued", None, None)
    assert [task["target"] for task in row["tasks"]] == ["index"]
    assert "Nothing works on it" in row["reason"]
    text = hearthreel("job", "show", job).output
    assert "small" in text
    assert "index" in text


def test_jobs_are_paused_resumed_cancelled_retried_and_removed(hearthreel: Type, job: str) -> None:
    states = [
        hearthreel("--json", "job", action, job[:6]).row["state"]
        for action in ("pause", "resume", "cancel", "retry", "remove")
    ]
    assert states[:4] == ["paused", "queued", "cancelled", "queued"]
    assert hearthreel("--json", "jobs").rows == []


def test_priorities_have_bounds(hearthreel: Type, job: str) -> None:
    assert hearthreel("--json", "job", "priority", job, "5").row["id"] == job
    hearthreel("job", "priority", job, "1001", code=2)
    hearthreel("job", "priority", job, "soon", code=2)
    assert hearthreel("--json", "job", "priority", job, "--", "-1000").row["id"] == job


@pytest.mark.slow
def test_job_wait_works_until_the_job_is_done(hearthreel: Type, job: str) -> None:
    row = hearthreel("--json", "job", "wait", job).row
    assert (row["id"], row["state"]) == (job, "done")
    assert hearthreel("--json", "job", "wait", job).row["state"] == "done"


def test_job_wait_fails_with_the_job(hearthreel: Type, job: str) -> None:
    hearthreel("job", "cancel", job)
    assert hearthreel("--json", "job", "wait", job, code=1).row["state"] == "cancelled"


@pytest.mark.slow
def test_a_job_whose_source_is_gone_fails_and_says_so(hearthreel: Type, small_film: Path, tmp_path: Path) -> None:
    gone = variant_of(small_film, tmp_path / "gone.mp4")
    added = hearthreel("--json", "add", gone).row
    gone.unlink()
    row = hearthreel("--json", "job", "wait", added["job_id"], code=1).row
    assert (row["state"], row["error"]["code"]) == ("error", "source-gone")
    assert "retry" in row["error"]["message"]
    text = hearthreel("jobs").output
    assert "error" in text


def test_a_done_job_cannot_be_cancelled(library: Type, film: dict[str, str]) -> None:
    said = library("--json", "job", "cancel", film["job"], code=1)
    assert said.output == ""
    assert said.errors.startswith("already-done: ")


@pytest.mark.parametrize("words", [("job", "show"), ("job", "pause"), ("show",), ("remove",), ("trash", "restore")])
@pytest.mark.parametrize(("name", "code"), [("ffffffffffff", "no-such-id"), ("abc", "no-such-id")])
def test_an_id_that_nothing_has_is_told(library: Type, words: tuple[str, ...], name: str, code: str) -> None:
    said = library("--json", *words, name, code=1)
    assert (said.output, said.errors.partition(":")[0]) == ("", code)


# Library


def test_the_library_is_shown_as_a_table_and_as_json(library: Type, film: dict[str, str]) -> None:
    text = library("library").output
    assert film["media"][:12] in text
    assert "small" in text
    assert "0:06" in text
    row = library("--json", "show", film["media"][:6]).row
    assert (row["media_id"], row["state"], row["title"]) == (film["media"], "ready", "small")
    assert "picture 180" in library("show", film["media"]).output


def test_an_empty_library_is_no_error(hearthreel: Type) -> None:
    for words in (("library",), ("jobs",), ("trash", "list")):
        assert hearthreel("--json", *words).output == ""
        said = hearthreel(*words)
        assert said.output == ""
        assert said.errors


def test_a_film_goes_to_the_trash_and_comes_back(library: Type, film: dict[str, str]) -> None:
    assert library("--json", "remove", film["media"]).row["state"] == "trashed"
    assert library("--json", "library").rows == []
    assert library("--json", "trash", "list").row["media_id"] == film["media"]
    assert library("--json", "trash", "restore", film["media"][:8]).row["state"] == "ready"
    assert library("--json", "trash", "list").rows == []


def test_the_trash_is_emptied(library: Type, library_root: Path, film: dict[str, str]) -> None:
    assert library("--json", "trash", "empty").row == {"deleted": 0}
    library("remove", film["media"])
    assert library("--json", "trash", "empty").row == {"deleted": 1}
    assert shards_in(library_root) == {}


def test_a_film_is_removed_for_good(library: Type, library_root: Path, film: dict[str, str]) -> None:
    library("remove", film["media"], "--now")
    assert shards_in(library_root) == {}
    assert library("--json", "jobs").rows == []


@pytest.mark.slow
def test_a_film_is_exported(library: Type, film: dict[str, str], tmp_path: Path) -> None:
    target = tmp_path / "50% done\n.mp4"
    row = library("--json", "export", film["media"], target).row
    assert row["size_bytes"] == target.stat().st_size
    assert "already-done" in library("--json", "export", film["media"], target, code=1).errors
    library("export", film["media"], target, "--overwrite")
    library("export", film["media"], tmp_path, code=2)


def test_a_film_that_is_not_done_is_not_exported(hearthreel: Type, job: str, tmp_path: Path) -> None:
    media = hearthreel("--json", "job", "show", job).row["media_id"]
    said = hearthreel("--json", "export", media, tmp_path / "out.mp4", code=1)
    assert said.errors.startswith("not-done: ")
    assert not (tmp_path / "out.mp4").exists()


# Settings, the vault, the machine


def test_settings_are_shown_and_changed(hearthreel: Type) -> None:
    assert hearthreel("--json", "config").row["worker.enabled"] is True
    assert hearthreel("--json", "config", "worker.enabled", "off").row == {"worker.enabled": False}
    assert hearthreel("--json", "config", "worker.enabled").row == {"worker.enabled": False}
    assert hearthreel("config", "vault.copies").output == "vault.copies = 2\n"
    assert hearthreel("--json", "config", "no.such", code=1).errors.startswith("bad-setting: ")
    assert hearthreel("--json", "config", "vault.copies", "many", code=1).errors.startswith("bad-setting: ")


def test_verify_is_silent_about_a_sound_vault(library: Type, library_root: Path) -> None:
    row = library("--json", "verify").row
    assert (row["shards"], row["damaged"], row["missing"], row["stray"]) == (len(shards_in(library_root)), [], [], [])


def test_verify_fails_on_a_flipped_byte(library: Type, library_root: Path) -> None:
    name = min(shards_in(library_root))
    shard = DataDir(root=library_root).vault / name[:2] / name
    data = bytearray(shard.read_bytes())
    data[-1] ^= 0x80
    shard.write_bytes(data)
    row = library("--json", "verify", code=1).row
    assert (row["damaged"], [one["title"] for one in row["affected"]]) == ([name], ["small"])
    assert library("--json", "verify", "--repair", code=1).row["repaired"] == [name]
    assert library("--json", "verify", code=1).row["missing"] == [name]


def test_verify_fails_on_a_shard_that_is_gone_or_is_none(library: Type, library_root: Path) -> None:
    name = min(shards_in(library_root))
    vault = DataDir(root=library_root).vault
    (vault / name[:2] / name).unlink()
    (vault / "holiday.jpg").write_bytes(b"put here by mistake")
    row = library("--json", "verify", code=1).row
    assert (row["missing"], row["stray"]) == ([name], ["holiday.jpg"])
    assert "verify --repair" in library("verify", code=1).errors


@pytest.mark.slow
def test_what_verify_says_to_do_makes_the_film_whole_again(
    library: Type, library_root: Path, film: dict[str, str]
) -> None:
    name = max(shards_in(library_root).items(), key=lambda one: one[1])[0]
    shard = DataDir(root=library_root).vault / name[:2] / name
    shard.write_bytes(bytes(shard.stat().st_size))
    library("verify", "--repair", code=1)
    assert library("--json", "job", "retry", film["job"]).row["state"] == "queued"
    assert library("--json", "job", "wait", film["job"]).row["state"] == "done"
    library("verify")


@pytest.mark.slow
def test_the_doctor_tells_of_encoders_and_versions(hearthreel: Type) -> None:
    row = hearthreel("--json", "doctor").row
    assert row["encoders"]["libx264"] == "works"
    assert row["database"] == "ok"
    assert "libx264" in hearthreel("doctor").output


# The data directory


def test_options_may_stand_before_and_after_the_command(small_film: Path, tmp_path: Path) -> None:
    root = tmp_path / "there"
    elsewhere = typist(tmp_path / "elsewhere")
    row = elsewhere("add", small_film, "--json", "--data-dir", root).row
    assert typist(root)("jobs", "--json").row["id"] == row["job_id"]
    assert (
        typist(root)("--json", "job", "show", row["job_id"]).row
        == typist(root)("job", "show", row["job_id"], "--json").row
    )
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.slow
def test_the_environment_names_the_data_directory(
    small_film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner  # noqa: PLC0415 (only here without --data-dir)

    from app.cli import Context, cli  # noqa: PLC0415

    monkeypatch.setenv("HEARTHREEL_DATA_DIR", str(tmp_path / "there"))
    result = CliRunner().invoke(cli, ["add", str(small_film), "--json"], obj=Context())
    assert result.exit_code == 0
    assert typist(tmp_path / "there")("--json", "jobs").row["id"] == json.loads(result.stdout)["job_id"]


def test_unknown_commands_and_options_are_usage_errors(hearthreel: Type, root: Path) -> None:
    for words in (("no-such",), ("job",), ("job", "no-such"), ("jobs", "--no-such"), ("job", "show"), ()):
        said = hearthreel(*words, code=2)
        assert said.output == "" or "Usage" in said.output + said.errors
    assert not root.exists()


def test_help_and_version_touch_nothing(hearthreel: Type, root: Path) -> None:
    for words in (("--help",), ("--version",), ("add", "--help"), ("job", "-h")):
        assert hearthreel(*words).output
    assert not root.exists()


def test_a_damaged_database_is_told(library: Type, library_root: Path) -> None:
    database = DataDir(root=library_root).database
    database.write_bytes(b"no database" * 1000)
    said = library("--json", "jobs", code=1)
    assert (said.output, said.errors.partition(":")[0]) == ("", "database-damaged")
    assert database.read_bytes() == b"no database" * 1000


def test_a_newer_database_is_told(library: Type, library_root: Path) -> None:
    with sqlite3.connect(DataDir(root=library_root).database) as database:
        database.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) "
            "SELECT migration_set, 'step of tomorrow', applied_at FROM _sqlite_migrations LIMIT 1"
        )
    database.close()
    assert library("--json", "library", code=1).errors.startswith("data-too-new: ")


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="everything can be written by root")
def test_a_data_directory_that_cannot_be_written_is_told(library: Type, library_root: Path) -> None:
    library_root.chmod(0o500)
    try:
        assert library("--json", "jobs", code=1).errors.startswith("read-only: ")
    finally:
        library_root.chmod(0o700)


def test_a_data_directory_that_is_a_file_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    typist(tmp_path / "file")("jobs", code=2)


# Names


HARD_NAMES: tuple[bytes, ...] = (
    b"23:50 12:00.mp4",
    b"-i.mp4",
    b"--json.mp4",
    b"clip%03d.mp4",
    b"concat:a|b.mp4",
    b'$(id) & `b` "q".mp4',
    b" lead and trail .mp4",
    b"new\nline.mp4",
    b"bad\xff\xfename.mp4",
    "\u202egpj.4pm.mp4".encode(),
    "Ame\u0301lie.mp4".encode(),
    "Am\u00e9lie.mp4".encode(),
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 日本語.mp4".encode(),
    b"x" * 251 + b".mp4",
    b"[bold red]markup.mp4",
    b"CON.mp4",
)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="most of these names cannot exist there")
def test_names_that_look_like_syntax_are_names(root: Path, small_film: Path, tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path / "names")
    os.mkdir(folder)  # noqa: PTH102 (bytes paths)
    data = small_film.read_bytes()
    for number, name in enumerate(HARD_NAMES):
        with open(folder + b"/" + name, "wb") as file:  # noqa: PTH123
            file.write(data + (8 + number).to_bytes(4, "big") + b"free" + bytes(number))
    rows = run(root, "--json", "add", "--", *(folder + b"/" + name for name in HARD_NAMES)).rows
    assert [row["error"] for row in rows] == [None] * len(HARD_NAMES)
    assert len({row["job_id"] for row in rows}) == len(HARD_NAMES)
    titles = [row["title"] for row in run(root, "--json", "jobs").rows]
    assert len(titles) == len(HARD_NAMES)
    for title in titles:
        title.encode()
        assert "\n" not in title
        assert "\u202e" not in title
    text = run(root, "jobs").output
    assert "[bold red]markup" in text
    assert "\u202e" not in text


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="these names cannot exist there")
@pytest.mark.parametrize("name", [b"bad\xff\xfename.mp4", b"new\nline.mp4", b"-o.mp4"])
def test_a_film_is_exported_under_any_name(library_root: Path, tmp_path: Path, name: bytes) -> None:
    media = run(library_root, "--json", "library").row["media_id"]
    target = os.fsencode(tmp_path) + b"/" + name
    row = run(library_root, "--json", "export", media, target).row
    assert os.path.getsize(target) == row["size_bytes"]  # noqa: PTH202 (bytes paths)
    assert "\n" not in row["path"]
