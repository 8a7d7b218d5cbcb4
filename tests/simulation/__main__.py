"""Simulates for as long as asked, or replays one history.

``python -m tests.simulation --minutes 30`` goes through fresh seeds and all profiles and prints each breach with the
command that replays it; ``python -m tests.simulation --profile users --seed 7`` shows one history from begin to end.
Exit status 1 when something broke.
"""

# ruff: noqa: T201 (a command line)

from __future__ import annotations

import argparse
import secrets
import sys
import time
import traceback
from collections import Counter

from tests.simulation.profiles import PROFILES, Profile
from tests.simulation.world import World

SQLITE_SHARE = 10
"""One history of so many keeps its rows in SQLite."""


def live(seed: int, profile: Profile, *, sqlite: bool) -> tuple[bool, World]:
    """Live through one history; return whether everything held, and the world as it was at the end."""
    world = World(seed, profile, sqlite=sqlite)
    try:
        world.run()
    except Exception:  # noqa: BLE001 (whatever goes wrong is a finding)
        traceback.print_exc()
        rows = " --sqlite" if sqlite else ""
        print(f"replay: python -m tests.simulation --profile {profile.name} --seed {seed}{rows}", flush=True)
        return False, world
    return True, world


def soak(minutes: float, profiles: list[Profile]) -> int:
    """Live through fresh histories; return how many broke something."""
    begin_s = time.monotonic()
    broken, events, hours, number = 0, Counter[str](), 0.0, 0
    first = secrets.randbelow(10**9)
    print(f"first seed {first}", flush=True)
    while time.monotonic() < begin_s + minutes * 60:
        profile = profiles[number % len(profiles)]
        is_whole, world = live(first + number, profile, sqlite=number % SQLITE_SHARE == SQLITE_SHARE - 1)
        broken += not is_whole
        number += 1
        events += world.events
        hours += world.timeline.now_s / 3600
    print(f"{number} histories, {hours:.0f} virtual hours, {broken} broken; {dict(events)}")
    return broken


def replay(seed: int, profile: Profile, *, sqlite: bool) -> int:
    """Live through one history and print it."""
    is_whole, world = live(seed, profile, sqlite=sqlite)
    print("\n".join(world.history))
    return int(not is_whole)


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--profile", choices=sorted(PROFILES))
    parser.add_argument("--seed", type=int)
    parser.add_argument("--sqlite", action="store_true", help="keep rows in SQLite (with --seed)")
    asked = parser.parse_args()
    profiles = [PROFILES[asked.profile]] if asked.profile else list(PROFILES.values())
    if asked.seed is not None:
        return replay(asked.seed, profiles[0], sqlite=asked.sqlite)
    return min(1, soak(asked.minutes, profiles))


if __name__ == "__main__":
    sys.exit(main())
