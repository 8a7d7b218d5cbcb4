"""Threads for work that is neither Qt's nor the engine's: walking folders, unpacking pictures.

Results come back on Qt's thread, in the order in which they were made (U1, U2).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from PySide6.QtCore import QObject, Qt, Signal, Slot

T = TypeVar("T")

_BATCH = 64
_log = logging.getLogger(__name__)


class Background(QObject):
    """A few threads; ``close`` lets them end without waiting for them."""

    _crossed = Signal(object)

    def __init__(self, *, threads: int = 2, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="window")
        self._is_closed = False
        self._crossed.connect(self._deliver, Qt.ConnectionType.QueuedConnection)

    def run(self, work: Callable[[], T], on_result: Callable[[T], None], on_error: Callable[[Exception], None]) -> None:
        """Call ``work`` on a thread and one of the others, on Qt's thread, with what came of it."""

        def task() -> None:
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 (the edge of a worker: the caller is told)
                self._cross(lambda error=error: on_error(error))  # type: ignore[misc]
            else:
                self._cross(lambda: on_result(result))

        self._submit(task)

    def stream(
        self,
        items: Callable[[], Iterable[T]],
        on_batch: Callable[[list[T]], None],
        on_end: Callable[[Exception | None], None],
    ) -> None:
        """Go through ``items()`` on a thread; hand over what it yields in batches, then tell of its end."""

        def task() -> None:
            batch: list[T] = []
            problem: Exception | None = None
            try:
                for item in items():
                    if self._is_closed:
                        return
                    batch.append(item)
                    if len(batch) >= _BATCH:
                        full, batch = batch, []
                        self._cross(lambda full=full: on_batch(full))  # type: ignore[misc]
            except Exception as error:  # noqa: BLE001 (the edge of a worker: the caller is told)
                problem = error
            if batch:
                self._cross(lambda: on_batch(batch))
            self._cross(lambda: on_end(problem))

        self._submit(task)

    def close(self) -> None:
        """Deliver nothing more; drop what has not begun."""
        self._is_closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _submit(self, task: Callable[[], None]) -> None:
        if not self._is_closed:
            self._pool.submit(task)

    def _cross(self, delivery: Callable[[], None]) -> None:
        if not self._is_closed:
            try:
                self._crossed.emit(delivery)
            except RuntimeError:
                _log.debug("a delivery came after the window had gone")

    @Slot(object)
    def _deliver(self, delivery: Callable[[], None]) -> None:
        if not self._is_closed:
            delivery()
