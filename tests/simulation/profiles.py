"""What a simulated history is made of: which misfortunes happen how often, and which rules are kept.

``Rules`` is the seam through which the tests of the simulation take away what a simulated device itself does; rules of
the queue's own code are taken away by patching one function of it (see ``mutations``).
"""

from __future__ import annotations

import msgspec


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What devices and the publisher keep to."""

    settles: bool = True
    """A claim is announced, and work starts only when it has settled."""
    publishes_by_value: bool = True
    """The film holds its bundles itself, instead of naming the tasks whose outcomes do."""
    keeps_tombstones: bool = True


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """How often things happen: numbers named ``*_every_s`` are mean seconds between two of them; 0 means never."""

    name: str
    devices: int = 4
    jobs: int = 4
    chaos_s: float = 700.0
    chunk_s: tuple[float, float] = (8.0, 60.0)
    """How long a chunk takes to make."""
    loss: float = 0.04
    doubling: float = 0.03
    delay_s: tuple[float, float] = (0.02, 2.5)
    partition_every_s: float = 150.0
    partition_s: tuple[float, float] = (20.0, 240.0)
    crash_every_s: float = 90.0
    suspend_every_s: float = 200.0
    clock_step_every_s: float = 200.0
    wipe_every_s: float = 900.0
    restore_every_s: float = 500.0
    copy_every_s: float = 900.0
    intent_every_s: float = 40.0
    cancel: bool = True
    """Whether users also cancel, trash and remove."""
    removals: float = 0.2
    """How often "remove" is among what a user may say."""
    failures: float = 0.03
    """Of attempts that go wrong by bad luck."""
    bad_jobs: float = 0.1
    """Of jobs whose file is no film, or kills its worker."""
    hiccup_s: float = 0.0
    """For how long, once, every attempt on every device fails: an encoder's driver that is being updated."""
    spread: float = 0.3
    """Chance with which a device copies a bundle that it lacks, each time it looks."""
    promises_single_runs: bool = False
    """Whether devices hear each other all the time, so that Q9 must hold from the begin."""


MIXED = Profile(name="mixed")
CALM = Profile(
    name="calm", loss=0.0, doubling=0.0, delay_s=(0.01, 0.45), partition_every_s=0, crash_every_s=0, suspend_every_s=0,
    wipe_every_s=0, restore_every_s=0, copy_every_s=0, intent_every_s=120, failures=0.0, bad_jobs=0.0, cancel=False,
    promises_single_runs=True, chaos_s=150, chunk_s=(8.0, 40.0),
)  # fmt: skip
HICCUP = msgspec.structs.replace(CALM, name="hiccup", hiccup_s=25.0, intent_every_s=0, jobs=4, chaos_s=60)
SLEEPY = Profile(
    name="sleepy", partition_every_s=60, crash_every_s=0, suspend_every_s=30, wipe_every_s=0, restore_every_s=0,
    copy_every_s=0, intent_every_s=0, failures=0.0, bad_jobs=0.0, chunk_s=(80.0, 200.0), chaos_s=2000, jobs=6,
)  # fmt: skip
RESTORED = Profile(
    name="restored", devices=2, jobs=10, restore_every_s=50, wipe_every_s=0, copy_every_s=0, crash_every_s=0,
    suspend_every_s=0, partition_every_s=60, partition_s=(60, 200), intent_every_s=15, removals=0.05,
)  # fmt: skip
WIPED = Profile(
    name="wiped", wipe_every_s=90, restore_every_s=0, copy_every_s=0, suspend_every_s=0, crash_every_s=200,
    intent_every_s=100, cancel=False, jobs=3, chunk_s=(2.0, 6.0), partition_every_s=150, spread=0.0,
    partition_s=(100, 300), devices=5,
)  # fmt: skip
USERS = Profile(
    name="users", intent_every_s=8, clock_step_every_s=60, wipe_every_s=0, restore_every_s=0, copy_every_s=0,
    partition_every_s=60, suspend_every_s=0, crash_every_s=200, bad_jobs=0.4,
)  # fmt: skip
FORGETFUL = Profile(
    name="forgetful", devices=4, jobs=8, chunk_s=(1.0, 20.0), chaos_s=700, partition_every_s=70, partition_s=(60, 120),
    wipe_every_s=40, spread=0.0, suspend_every_s=60, crash_every_s=0, restore_every_s=0, copy_every_s=0,
    intent_every_s=12, removals=0.0, failures=0.0, bad_jobs=0.0,
)  # fmt: skip
REMOVED = msgspec.structs.replace(
    USERS, name="removed", removals=1.0, jobs=12, intent_every_s=15, partition_every_s=40, partition_s=(60, 120),
    suspend_every_s=60,
)  # fmt: skip
COPIED = Profile(name="copied", copy_every_s=150, restore_every_s=0, wipe_every_s=0)

PROFILES = {one.name: one for one in (MIXED, CALM, HICCUP, SLEEPY, RESTORED, WIPED, USERS, FORGETFUL, REMOVED, COPIED)}
