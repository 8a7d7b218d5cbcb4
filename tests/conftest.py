"""What holds for all tests: those that depend on the machine's speed get another chance, and the summary says so.

No test, and no program that a test starts, touches the keyring of whoever runs it.
"""

from __future__ import annotations

import os

import pytest

from app.storage.secret_store import FILE, SECRETS_VARIABLE

os.environ[SECRETS_VARIABLE] = FILE

_RERUNS = 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests with real players and real processes be run again when they fail; pure tests must pass at once."""
    for item in items:
        if item.get_closest_marker("judge") or item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.flaky(reruns=_RERUNS, reruns_delay=1))
