"""The interpreter outlives any number of Qt calls."""

from __future__ import annotations

import subprocess
import sys

import pytest

from app.ui.refcounts import pin_singletons

CALLS = """
import app.ui
from PySide6.QtCore import QObject
one = QObject()
for _ in range(200_000):
    one.setObjectName("x")
print("alive")
"""


def test_many_calls_that_return_nothing_do_not_end_the_interpreter() -> None:
    done = subprocess.run([sys.executable, "-c", CALLS], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="these Pythons never let None go")
def test_pinning_twice_changes_nothing_more() -> None:
    pin_singletons()
    before = sys.getrefcount(NotImplemented)
    pin_singletons()
    assert abs(sys.getrefcount(NotImplemented) - before) < 100
