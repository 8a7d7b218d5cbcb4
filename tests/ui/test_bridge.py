"""Two threads meet in order, and part without harm."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

from pytestqt.qtbot import QtBot

from app.core.errors import ErrorCode, ErrorInfo, ExpectedError
from app.engine.api import Changed, ChangeJob, ExportFilm, ListJobs, ListLibrary
from app.ui.bridge import EngineBridge
from tests.ui.fake_engine import FakeEngine, make_film, make_job


def test_replies_come_on_qts_thread(qtbot: QtBot, bridge: EngineBridge, engine: FakeEngine) -> None:
    """U2: what comes from another thread is delivered on Qt's thread."""
    engine.films["m"] = make_film("Film", media_id="m")
    seen: list[tuple[int, threading.Thread]] = []
    bridge.send(ListLibrary(), lambda films: seen.append((len(films), threading.current_thread())))
    qtbot.waitUntil(lambda: bool(seen))
    assert seen == [(1, threading.main_thread())]


def test_events_come_on_qts_thread_in_order(qtbot: QtBot, bridge: EngineBridge, engine: FakeEngine) -> None:
    seen: list[str] = []
    threads: set[threading.Thread] = set()

    def note(changed: Changed, _is_everything: bool) -> None:  # noqa: FBT001 (a Qt slot)
        seen.extend(job.title for job in changed.jobs)
        threads.add(threading.current_thread())

    bridge.changed.connect(note)
    qtbot.waitUntil(lambda: bool(engine.listeners))
    for number in range(50):
        engine.put_jobs(make_job(str(number)))
    qtbot.waitUntil(lambda: len(seen) >= 50)
    assert seen == [str(number) for number in range(50)]
    assert threads == {threading.main_thread()}


def test_the_first_event_of_each_connection_is_everything(
    qtbot: QtBot, engine: FakeEngine, loop: asyncio.AbstractEventLoop
) -> None:
    bridge = EngineBridge(engine, loop, first_pause_s=0.01)
    kinds: list[bool] = []
    lost: list[ErrorInfo] = []
    bridge.changed.connect(lambda _changed, is_everything: kinds.append(is_everything))
    bridge.lost.connect(lost.append)
    bridge.start()
    qtbot.waitUntil(lambda: kinds == [True])
    engine.put_jobs(make_job("one"))
    qtbot.waitUntil(lambda: kinds == [True, False])
    engine.break_events()
    qtbot.waitUntil(lambda: kinds == [True, False, True])
    assert [info.code for info in lost] == ["engine-gone"]
    bridge.close(wait_s=1)


def test_a_refusal_comes_as_a_code_and_a_sentence(qtbot: QtBot, bridge: EngineBridge, engine: FakeEngine) -> None:
    engine.refuse(ChangeJob, ErrorCode.ALREADY_DONE, "It is done already.")
    errors: list[ErrorInfo] = []
    replies: list[object] = []
    bridge.send(ChangeJob(job_id="x", action="pause"), replies.append, errors.append)
    qtbot.waitUntil(lambda: bool(errors))
    assert errors == [ErrorInfo(code="already-done", message="It is done already.")]
    assert replies == []


def test_a_bug_is_logged_and_told_without_its_insides(
    qtbot: QtBot, bridge: EngineBridge, engine: FakeEngine, caplog: object
) -> None:
    engine.refusals[ListLibrary] = lambda _command: RuntimeError("secret path")
    errors: list[ErrorInfo] = []
    bridge.send(ListLibrary(), None, errors.append)
    qtbot.waitUntil(lambda: bool(errors))
    assert errors[0].code == "internal"
    assert "secret" not in errors[0].message
    assert "a command failed" in getattr(caplog, "text", "")


def test_progress_comes_before_the_reply(qtbot: QtBot, bridge: EngineBridge, engine: FakeEngine) -> None:
    engine.films["m"] = make_film("Film", media_id="m")
    seen: list[object] = []
    bridge.send(
        ExportFilm(media_id="m", path=b"/x.mp4"),
        seen.append,
        seen.append,
        lambda share, word: seen.append((share, word)),
    )
    qtbot.waitUntil(lambda: len(seen) == 2)
    assert seen == [(0.5, "writing"), 1_240_000_000]


def test_a_cancelled_call_is_silent(qtbot: QtBot, bridge: EngineBridge, engine: FakeEngine) -> None:
    engine.hold(ListLibrary)
    seen: list[object] = []
    call = bridge.send(ListLibrary(), seen.append, seen.append)
    qtbot.waitUntil(lambda: bool(engine.called(ListLibrary)))
    call.cancel()
    replies: list[object] = []
    bridge.send(ListJobs(), replies.append, replies.append)
    qtbot.waitUntil(lambda: bool(replies))
    assert seen == []


def test_after_close_nothing_is_delivered_but_work_is_carried_out(
    qtbot: QtBot, engine: FakeEngine, loop: asyncio.AbstractEventLoop
) -> None:
    """U2: not at all after the bridge closed."""
    bridge = EngineBridge(engine, loop)
    bridge.start()
    job = make_job("Film", "processing")
    engine.jobs[job.id] = job
    engine.hold(ChangeJob)
    seen: list[object] = []
    bridge.send(ChangeJob(job_id=job.id, action="pause"), seen.append, seen.append)
    qtbot.waitUntil(lambda: bool(engine.called(ChangeJob)))
    engine.release(ChangeJob)
    bridge.close(wait_s=2)
    assert engine.jobs[job.id].state == "paused"
    qtbot.wait(1)
    assert seen == []


def test_an_engine_whose_loop_is_over_is_an_error_in_words(qtbot: QtBot) -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    bridge = EngineBridge(FakeEngine(loop), loop)
    bridge.start()
    errors: list[ErrorInfo] = []
    bridge.send(ListLibrary(), None, errors.append)
    qtbot.waitUntil(lambda: bool(errors))
    assert errors[0].code == "engine-gone"
    bridge.close()


def test_events_that_cannot_be_had_are_asked_for_again(
    qtbot: QtBot, engine: FakeEngine, loop: asyncio.AbstractEventLoop
) -> None:
    class Shy(FakeEngine):
        """Refuses its first listener."""

        tries = 0

        async def events(self) -> AsyncIterator[Changed]:
            self.tries += 1
            if self.tries == 1:
                raise ExpectedError(ErrorCode.ENGINE_GONE, "Not yet.")
            async for event in super().events():
                yield event

    del engine
    bridge = EngineBridge(Shy(loop), loop, first_pause_s=0.01)
    lost: list[ErrorInfo] = []
    seen: list[object] = []
    bridge.lost.connect(lost.append)
    bridge.changed.connect(lambda changed, _is_everything: seen.append(changed))
    bridge.start()
    qtbot.waitUntil(lambda: bool(seen))
    assert [info.message for info in lost] == ["Not yet."]
    bridge.close(wait_s=1)
