"""The door for other processes: who is let in, what a broken client does, and what happens when either side ends."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.clock import ManualClock
from app.core.errors import ErrorCode, ExpectedError
from app.core.paths import DataDir
from app.engine import api
from app.engine.host import EngineHost, open_engine
from app.engine.local import LocalEngine
from app.engine.lock import Endpoint, read_endpoint
from app.engine.remote import RemoteEngine
from app.engine.server import EngineServer
from app.engine.wire import (
    MAX_FRAME_BYTES,
    MAX_HELLO_BYTES,
    PROTOCOL,
    Ask,
    FromEngine,
    Hello,
    Subscribe,
    Trouble,
    Welcome,
    receive_from_client,
    receive_from_engine,
    send,
)
from tests.engine.stage import engine_on, until, variant_of


class Door(msgspec.Struct, frozen=True, kw_only=True):
    """A running engine's door."""

    engine: LocalEngine
    server: EngineServer
    endpoint: Endpoint


@pytest.fixture
async def door(library_root: Path) -> AsyncIterator[Door]:
    async with engine_on(library_root, work=False) as engine:
        server = EngineServer(engine)
        await server.start()
        endpoint = read_endpoint(DataDir(root=library_root))
        assert endpoint is not None
        yield Door(engine=engine, server=server, endpoint=endpoint)
        await server.close()


async def knock(door: Door, data: bytes) -> bytes:
    """Return all that the server says to a client that sends ``data`` and no more."""
    reader, writer = await asyncio.open_connection("127.0.0.1", door.endpoint.port)
    writer.write(data)
    if writer.can_write_eof():
        writer.write_eof()
    try:
        async with asyncio.timeout(5):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def drain(events: AsyncIterator[api.Changed]) -> None:
    """Follow events to their end."""
    async for _event in events:
        pass


def frame(message: object) -> bytes:
    payload = msgspec.msgpack.encode(message)
    return len(payload).to_bytes(4, "big") + payload


async def test_only_this_user_can_read_where_the_engine_listens(door: Door, library_root: Path) -> None:
    mode = DataDir(root=library_root).endpoint.stat().st_mode
    assert stat.S_IMODE(mode) == 0o600
    assert door.endpoint.pid == os.getpid()


@pytest.mark.parametrize("token", ["", "wrong", "ü" * 20])
async def test_a_client_without_the_token_is_told_nothing(door: Door, token: str) -> None:
    asked = frame(Hello(protocol=PROTOCOL, token=token)) + frame(Ask(id=1, command=api.ListJobs()))
    assert await knock(door, asked) == b""
    with pytest.raises(ExpectedError) as caught:
        await RemoteEngine.connect(msgspec.structs.replace(door.endpoint, token=token))
    assert caught.value.code is ErrorCode.ENGINE_GONE


async def test_a_client_that_does_not_begin_with_hello_is_told_nothing(door: Door) -> None:
    assert await knock(door, frame(Ask(id=1, command=api.ListJobs()))) == b""


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"\xff\xff\xff\xff",
        (MAX_HELLO_BYTES + 1).to_bytes(4, "big") + bytes(MAX_HELLO_BYTES + 1),
        (4).to_bytes(4, "big") + b"\xc1\xc1\xc1\xc1",
        (6).to_bytes(4, "big") + b"\x81\xa4\xff\xff\xff\xff",
    ],
)
async def test_garbage_ends_its_connection_and_nothing_else(door: Door, data: bytes) -> None:
    assert await knock(door, data) == b""
    greeting = await knock(door, frame(Hello(protocol=PROTOCOL, token=door.endpoint.token)) + data)
    assert len(greeting) == len(frame(Welcome(protocol=PROTOCOL)))
    client = await RemoteEngine.connect(door.endpoint)
    assert len(await client.call(api.ListJobs())) == 1
    await client.close()


async def test_two_requests_of_one_number_are_refused(door: Door) -> None:
    twice = frame(Hello(protocol=PROTOCOL, token=door.endpoint.token)) + 2 * frame(Subscribe(id=1))
    await knock(door, twice)
    client = await RemoteEngine.connect(door.endpoint)
    assert len(await client.call(api.ListJobs())) == 1
    await client.close()


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_decoding_is_strict_and_never_fails_otherwise(data: bytes) -> None:
    async def read() -> None:
        for receive in (receive_from_client, receive_from_engine):
            reader = asyncio.StreamReader()
            reader.feed_data(len(data).to_bytes(4, "big") + data)
            reader.feed_eof()
            try:
                await receive(reader)
            except ExpectedError as error:
                assert error.code is ErrorCode.BAD_MESSAGE  # noqa: PT017 (other errors must come through)

    asyncio.run(read())


async def test_a_message_that_is_too_long_is_not_read() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data((MAX_FRAME_BYTES + 1).to_bytes(4, "big"))
    with pytest.raises(ExpectedError, match="too long"):
        await receive_from_client(reader)


async def test_a_clients_players_end_with_it(door: Door) -> None:
    client, other = await RemoteEngine.connect(door.endpoint), await RemoteEngine.connect(door.endpoint)
    (film,) = await client.call(api.ListLibrary())
    mine = await client.call(api.OpenPlayer(media_id=film.media_id))
    theirs = await other.call(api.OpenPlayer(media_id=film.media_id))
    gateway = await door.engine._open_gateway()
    await client.close()
    await until(lambda: mine.token not in gateway._sessions)
    async with aiohttp.ClientSession() as session:
        async with session.get(mine.master) as answer:
            assert answer.status == 404
        async with session.get(theirs.master) as answer:
            assert answer.status == 200
    await other.close()


async def test_a_client_that_breaks_off_ends_its_requests(door: Door, small_film: Path, tmp_path: Path) -> None:
    """A probe takes a moment; who asked for it is gone before it is answered."""
    film = variant_of(small_film, tmp_path / "other.mp4")
    reader, writer = await asyncio.open_connection("127.0.0.1", door.endpoint.port)
    await send(writer, Hello(protocol=PROTOCOL, token=door.endpoint.token))
    assert isinstance(await receive_from_engine(reader), Welcome)
    await send(writer, Ask(id=1, command=api.AddPath(path=os.fsencode(film))))
    await until(lambda: any(one._requests for one in door.server._connections.values()))
    writer.transport.abort()
    await until(lambda: not door.server._connections)


async def test_an_engine_that_ends_answers_first_what_it_was_asked(
    library_root: Path, small_film: Path, tmp_path: Path
) -> None:
    film = variant_of(small_film, tmp_path / "other.mp4")
    async with engine_on(library_root, work=False) as engine:
        server = EngineServer(engine)
        await server.start()
        endpoint = read_endpoint(DataDir(root=library_root))
        assert endpoint is not None
        client = await RemoteEngine.connect(endpoint)
        call = asyncio.ensure_future(client.call(api.AddPath(path=os.fsencode(film))))
        await until(lambda: any(one._asks for one in server._connections.values()))
        await server.close()
        assert (await call).state == "queued"
        await client.gone.wait()
        with pytest.raises(ExpectedError) as caught:
            await client.call(api.ListJobs())
        assert caught.value.code is ErrorCode.ENGINE_GONE
        await client.close()


async def test_a_clients_events_end_with_engine_gone(library_root: Path) -> None:
    async with engine_on(library_root, work=False) as engine:
        server = EngineServer(engine)
        await server.start()
        endpoint = read_endpoint(DataDir(root=library_root))
        assert endpoint is not None
        client = await RemoteEngine.connect(endpoint)
        events = aiter(client.events())
        await anext(events)
        await server.close()
        with pytest.raises(ExpectedError) as caught:
            await drain(events)
        assert caught.value.code is ErrorCode.ENGINE_GONE
        await client.close()


async def _serve_once(answer: FromEngine) -> tuple[asyncio.Server, Endpoint]:
    """Be an engine that says one thing to whoever comes."""

    async def accept(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await send(writer, answer)
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    return server, Endpoint(port=port, token="t", pid=0)  # noqa: S106 (a made-up token)


async def test_an_engine_of_another_version_is_told_apart_from_one_that_is_gone() -> None:
    server, endpoint = await _serve_once(Welcome(protocol=PROTOCOL + 1))
    with pytest.raises(ExpectedError) as caught:
        await RemoteEngine.connect(endpoint)
    assert caught.value.code is ErrorCode.DATA_TOO_NEW
    server.close()


async def test_something_else_on_the_engines_port_is_no_engine() -> None:
    server, endpoint = await _serve_once(Trouble(id=1, code="x", message="y"))
    with pytest.raises(ExpectedError) as caught:
        await RemoteEngine.connect(endpoint)
    assert caught.value.code is ErrorCode.ENGINE_GONE
    server.close()
    await server.wait_closed()
    with pytest.raises(ExpectedError) as caught:
        await RemoteEngine.connect(endpoint)
    assert caught.value.code is ErrorCode.ENGINE_GONE


# Being the engine, or a guest of it


async def test_the_second_of_two_hosts_is_a_client_and_takes_over(library_root: Path) -> None:
    data = DataDir(root=library_root)
    first = EngineHost(data, work=False)
    await first.open()
    async with open_engine(data, work=False) as second:
        assert (first.is_host, second.is_host) == (True, False)
        assert await second.call(api.ListJobs()) == await first.call(api.ListJobs())
        await first.close()
        assert len(await second.call(api.ListJobs())) == 1
        assert second.is_host
    with pytest.raises(ExpectedError) as caught:
        await first.call(api.ListJobs())
    assert caught.value.code is ErrorCode.ENGINE_GONE


async def test_a_lasting_hosts_events_go_on_with_the_next_engine(library_root: Path) -> None:
    data = DataDir(root=library_root)
    first = EngineHost(data, work=False)
    await first.open()
    async with open_engine(data, work=False, lasting=True) as second, open_engine(data, work=False) as third:
        lasting, ending = aiter(second.events()), aiter(third.events())
        await anext(lasting)
        await anext(ending)
        await first.close()
        with pytest.raises(ExpectedError):
            await drain(ending)
        assert len((await anext(lasting)).jobs) == 1
        assert second.is_host


async def test_of_many_hosts_at_once_each_is_served(library_root: Path) -> None:
    """As when a script starts several commands at once: whoever is first is the engine, and ends first."""
    data = DataDir(root=library_root)

    async def ask() -> int:
        async with open_engine(data, work=False) as engine:
            return len(await engine.call(api.ListJobs()))

    assert await asyncio.gather(*(ask() for _ in range(12))) == [1] * 12
    assert read_endpoint(data) is None


async def test_a_host_that_cannot_publish_gives_the_lock_back(root: Path) -> None:
    data = DataDir(root=root)
    data.endpoint.with_suffix(".tmp").mkdir(parents=True)
    host = EngineHost(data, work=False)
    with pytest.raises(ExpectedError):
        await host.open()
    data.endpoint.with_suffix(".tmp").rmdir()
    async with engine_on(root, work=False, clock=ManualClock()):
        pass
    await host.close()
