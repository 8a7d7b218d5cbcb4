"""Ctrl-C and SIGTERM end the window like its close button.

Python runs signal handlers between its own instructions, of which there are none while Qt waits for events; so the
signal's number is written to a socket, which Qt watches.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from PySide6.QtCore import QSocketNotifier

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interrupts_call(end: Callable[[], None]) -> Iterator[None]:
    """Call ``end`` on Qt's thread when the person (or the system) asks the program to end; main thread only."""
    reader, writer = socket.socketpair()
    with reader, writer:
        reader.setblocking(False)
        writer.setblocking(False)
        notifier = QSocketNotifier(reader.fileno(), QSocketNotifier.Type.Read)
        notifier.activated.connect(lambda *_: end())
        before = {number: signal.signal(number, _let_it_be_written) for number in _SIGNALS}
        old = signal.set_wakeup_fd(writer.fileno())
        try:
            yield
        finally:
            signal.set_wakeup_fd(old)
            for number, handler in before.items():
                signal.signal(number, handler)
            notifier.setEnabled(False)


def _let_it_be_written(_number: int, _frame: object) -> None:
    """Do nothing: having a handler is what makes Python write the signal to the socket."""
