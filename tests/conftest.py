"""What holds for all tests: those that depend on the machine's speed get another chance, and the summary says so."""

from __future__ import annotations

import pytest

_RERUNS = 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests with real players and real processes be run again when they fail; pure tests must pass at once."""
    for item in items:
        if item.get_closest_marker("judge") or item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.flaky(reruns=_RERUNS, reruns_delay=1))
