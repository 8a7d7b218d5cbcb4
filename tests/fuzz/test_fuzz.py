"""A handful of broken films with fixed numbers; the fuzzer's own parts."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from tests.fuzz.__main__ import broken_film
from tests.fuzz.inputs import make_films
from tests.fuzz.mutations import MUTATIONS, mutate
from tests.fuzz.trial import Trial, available_tracer, touches

TRIALS = (1, 2, 3, 5, 8, 13, 21, 34)
SEED = 1


@pytest.fixture(scope="session")
def films(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return films to break."""
    if shutil.which("ffmpeg") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("ffmpeg must be installed to make films")
    return make_films(tmp_path_factory.mktemp("whole"))


@pytest.mark.slow
@pytest.mark.parametrize("number", TRIALS)
async def test_a_broken_film_must_end_in_time_as_a_film_or_a_clear_error(
    films: dict[str, bytes], tmp_path: Path, number: int
) -> None:
    name, _, data = broken_film(films, SEED, number)
    path = tmp_path / name
    path.write_bytes(data)
    verdict = await Trial(path, traced=available_tracer() is not None and number < 3).run()
    assert verdict.faults == ()


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_changes_something_and_is_the_same_for_the_same_dice(name: str) -> None:
    whole = bytes(range(256)) * 8 + b"\0\0\0\x20moov\0\0\0\x10trak" + b"\x1a\x45\xdf\xa3\x84" + bytes(300)
    changed = 0
    for seed in range(20):
        once, again = bytearray(whole), bytearray(whole)
        MUTATIONS[name](once, random.Random(seed), [b"donor" * 99])  # noqa: S311
        MUTATIONS[name](again, random.Random(seed), [b"donor" * 99])  # noqa: S311
        assert once == again
        changed += once != whole
    assert changed > 10


def test_nothing_left_to_break_is_no_trouble() -> None:
    for seed in range(50):
        mutate(b"a", random.Random(seed), [b"b"])  # noqa: S311


@pytest.mark.parametrize(
    ("line", "is_fault"),
    [
        ('1 openat(AT_FDCWD, "/usr/lib/libm.so", O_RDONLY|O_CLOEXEC) = 3', False),
        ('1 openat(AT_FDCWD, "/etc/passwd", O_RDONLY) = 3', True),
        ('1 openat(AT_FDCWD, "/etc/passwd", O_RDONLY) = -1 ENOENT', True),
        ('1 openat(AT_FDCWD, "base.mp4", O_RDONLY) = 3', True),
        ('1 openat(AT_FDCWD, "/usr/lib/x", O_RDWR|O_CREAT, 0600) = 3', True),
        ('1 unlink("/home/me/film.mp4") = 0', True),
        ("1 socket(AF_INET, SOCK_STREAM, IPPROTO_TCP) = 4", True),
        ("1 +++ exited with 0 +++", False),
    ],
)
def test_what_a_child_has_no_business_with_is_seen(line: str, is_fault: bool) -> None:  # noqa: FBT001
    assert (touches(line) is not None) == is_fault
