"""A session's seeks, without a server."""

from __future__ import annotations

import asyncio

from app.playback.session import SEEK_WINDOW_S, PlayerSession
from app.playback.source import INIT_NUMBER


def open_session() -> PlayerSession:
    return PlayerSession(token="t", media_id="m")  # noqa: S106 (not a secret)


def begin_wait(session: PlayerSession, number: int) -> asyncio.Future[bytes]:
    fetch: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    session.begin_wait(fetch, number)
    return fetch


async def test_a_seek_keeps_the_target_and_init_sections() -> None:
    session = open_session()
    left, target, init = (begin_wait(session, number) for number in (1, 7, INIT_NUMBER))
    session.seek(7, now=10.0)
    assert (left.cancelled(), target.cancelled(), init.cancelled()) == (True, False, False)


async def test_a_wait_that_is_over_is_forgotten() -> None:
    session = open_session()
    fetch = begin_wait(session, 1)
    assert session.waiting == (1,)
    fetch.set_exception(OSError("gone"))
    await asyncio.sleep(0)
    assert len(session.waiting) == 0


async def test_ending_a_session_closes_all_waits() -> None:
    session = open_session()
    waits = [begin_wait(session, number) for number in (1, INIT_NUMBER)]
    session.end()
    assert all(one.cancelled() for one in waits)


def test_nothing_is_left_behind_before_a_seek() -> None:
    assert not open_session().is_left_behind("720", 3, now=0.0)


def test_after_a_seek_other_segments_are_left_behind_until_the_target_is_asked_for() -> None:
    session = open_session()
    session.seek(7, now=10.0)
    assert session.is_left_behind("720", 3, now=10.1)
    assert not session.is_left_behind("720", INIT_NUMBER, now=10.1)
    assert not session.is_left_behind("720", 7, now=10.2)
    assert not session.is_left_behind("720", 8, now=10.3)
    assert session.is_left_behind("a0", 3, now=10.3)


def test_a_seek_is_forgotten_after_a_while() -> None:
    session = open_session()
    session.seek(7, now=10.0)
    assert not session.is_left_behind("720", 3, now=10.0 + SEEK_WINDOW_S)


def test_every_seek_begins_anew() -> None:
    session = open_session()
    session.seek(7, now=10.0)
    session.is_left_behind("720", 7, now=10.1)
    session.seek(2, now=11.0)
    assert session.is_left_behind("720", 7, now=11.1)
    assert not session.is_left_behind("720", 2, now=11.1)
