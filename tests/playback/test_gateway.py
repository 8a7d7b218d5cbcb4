"""The gateway over real loopback, with films in memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import aiohttp
import pytest

from app.core.errors import ErrorCode, ExpectedError
from app.playback.answers import FREE_BOX
from app.playback.gateway import Gateway, GatewayTimings, is_loopback_host
from app.playback.memory import MemoryFilmSource
from app.playback.source import INIT_NUMBER, FilmLayout, StillKind, film_layout
from tests.playback.films import MEDIA, make_plan, until

BODY = bytes(range(256)) * 4


class Viewer:
    """A player session seen from the client's side."""

    def __init__(self, gateway: Gateway, client: aiohttp.ClientSession, layout: FilmLayout, token: str) -> None:
        self.gateway = gateway
        self.client = client
        self.token = token
        self.root = f"http://127.0.0.1:{gateway.port}/{token}/"
        self.pieces = self.root + layout.plan_hash + "/"
        self.agent = "test"

    async def get(self, path: str, **headers: str) -> tuple[int, bytes, dict[str, str]]:
        async with self.client.get(self.root + path, headers=headers) as answer:
            return answer.status, await answer.read(), dict(answer.headers)

    async def begin(self, piece: str) -> aiohttp.ClientResponse:
        """Ask for a piece and return when its headers came."""
        return await self.client.get(self.pieces + piece, headers={"User-Agent": self.agent})


@pytest.fixture
async def viewer(gateway: Gateway, client: aiohttp.ClientSession, layout: FilmLayout) -> Viewer:
    addresses = await gateway.open_session(MEDIA)
    return Viewer(gateway, client, layout, addresses.token)


def without_free_boxes(body: bytes) -> bytes:
    while body.startswith(FREE_BOX):
        body = body.removeprefix(FREE_BOX)
    return body


async def wait_until_waiting(gateway: Gateway, token: str, numbers: set[int]) -> None:
    await until(lambda: set(gateway._sessions[token].waiting) == numbers)


async def test_only_loopback_hosts_are_answered(viewer: Viewer) -> None:
    assert (await viewer.get("master.m3u8", Host="evil.example"))[0] == 403
    assert (await viewer.get("master.m3u8", Host=f"127.0.0.1.evil.example:{viewer.gateway.port}"))[0] == 403
    assert (await viewer.get("master.m3u8", Host=f"localhost:{viewer.gateway.port}"))[0] == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:80", "LOCALHOST:1", "[::1]:8080", "[::1]"])
def test_a_loopback_host_is_known(host: str) -> None:
    assert is_loopback_host(host)


@pytest.mark.parametrize("host", ["", ":80", "127.0.0.1.evil", "evil", "127.0.0.1:", "localhost:80:80", "127.0.0.1:x"])
def test_any_other_host_is_refused(host: str) -> None:
    assert not is_loopback_host(host)


async def test_nothing_is_served_without_a_token(viewer: Viewer, client: aiohttp.ClientSession) -> None:
    for path in ("", "master.m3u8", "x/master.m3u8", f"{viewer.token[:-1]}/master.m3u8"):
        async with client.get(f"http://127.0.0.1:{viewer.gateway.port}/{path}") as answer:
            assert answer.status == 404
            assert "Access-Control-Allow-Origin" not in answer.headers


async def test_it_listens_on_loopback_only(gateway: Gateway) -> None:
    assert gateway._runner is not None
    assert [address[0] for address in gateway._runner.addresses] == ["127.0.0.1"]


async def test_playlists_are_served_fresh_to_any_origin(viewer: Viewer) -> None:
    for path in ("master.m3u8", "auto.m3u8", "auto/video.m3u8"):
        status, body, headers = await viewer.get(path)
        assert status == 200
        assert body.startswith(b"#EXTM3U\n")
        assert headers["Content-Type"] == "application/vnd.apple.mpegurl"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Access-Control-Allow-Origin"] == "*"


async def test_addresses_in_the_master_lead_to_playlists(viewer: Viewer) -> None:
    _, body, _ = await viewer.get("master.m3u8")
    addresses = [one for one in body.decode().splitlines() if one.endswith(".m3u8")]
    assert len(addresses) == 2
    for address in addresses:
        assert (await viewer.get(address))[0] == 200


async def test_other_methods_are_refused(viewer: Viewer, client: aiohttp.ClientSession) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        async with client.request(method, viewer.root + "master.m3u8") as answer:
            assert answer.status == 405
            assert answer.headers["Allow"] == "GET, HEAD"


async def test_http_1_0_is_refused(viewer: Viewer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", viewer.gateway.port)
    writer.write(f"GET /{viewer.token}/master.m3u8 HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
    assert b" 505 " in await reader.readline()
    writer.close()
    await writer.wait_closed()


async def test_a_made_piece_is_answered_with_its_length(viewer: Viewer, source: MemoryFilmSource) -> None:
    await source.put(MEDIA, "720", 0, BODY)
    await source.put(MEDIA, "a0", INIT_NUMBER, b"sound")
    async with await viewer.begin("720/0.m4s") as answer:
        assert (answer.status, answer.content_length, answer.content_type) == (200, len(BODY), "video/mp4")
        assert await answer.read() == BODY
    async with await viewer.begin("a0/init.mp4") as answer:
        assert (await answer.read(), answer.content_type) == (b"sound", "audio/mp4")


async def test_ranges_of_a_made_piece_work(
    viewer: Viewer, source: MemoryFilmSource, client: aiohttp.ClientSession
) -> None:
    await source.put(MEDIA, "720", 0, BODY)
    async with client.get(viewer.pieces + "720/0.m4s", headers={"Range": "bytes=10-19"}) as answer:
        assert (answer.status, await answer.read()) == (206, BODY[10:20])
        assert answer.headers["Content-Range"] == "bytes 10-19/1024"
    async with client.get(viewer.pieces + "720/0.m4s", headers={"Range": "bytes=5000-"}) as answer:
        assert (answer.status, answer.headers["Content-Range"]) == (416, "bytes */1024")


async def test_head_tells_the_length_of_a_made_piece(
    viewer: Viewer, source: MemoryFilmSource, client: aiohttp.ClientSession
) -> None:
    await source.put(MEDIA, "720", 0, BODY)
    async with client.head(viewer.pieces + "720/0.m4s", headers={"Range": "bytes=0-1"}) as answer:
        assert (answer.status, answer.headers["Content-Length"], await answer.read()) == (200, "1024", b"")


async def test_head_of_a_missing_piece_neither_waits_nor_makes_work(
    viewer: Viewer, source: MemoryFilmSource, client: aiohttp.ClientSession
) -> None:
    async with client.head(viewer.pieces + "720/1.m4s") as answer:
        assert answer.status == 200
        assert "Content-Length" not in answer.headers
    await source.put(MEDIA, "720", 0, BODY)
    async with client.get(viewer.pieces + "720/0.m4s") as answer:
        assert await answer.read() == BODY
    assert source.wanted == []


async def test_a_missing_segment_is_answered_at_once_and_kept_alive(viewer: Viewer, source: MemoryFilmSource) -> None:
    async with await viewer.begin("720/2.m4s") as answer:
        assert answer.status == 200
        assert answer.headers["Accept-Ranges"] == "none"
        assert await answer.content.readexactly(32) == FREE_BOX * 2
        assert source.wanted == [(MEDIA, "720", 2)]
        await source.put(MEDIA, "720", 2, BODY)
        assert without_free_boxes(await answer.read()) == BODY


async def test_a_missing_init_section_is_waited_for(viewer: Viewer, source: MemoryFilmSource) -> None:
    async with await viewer.begin("720/init.mp4") as answer:
        await answer.content.readexactly(16)
        await source.put(MEDIA, "720", INIT_NUMBER, BODY)
        assert without_free_boxes(await answer.read()) == BODY


def test_a_free_box_is_a_well_formed_box() -> None:
    assert b"\0\0\0\x10free" + bytes(8) == FREE_BOX


@pytest.fixture
async def hasty(source: MemoryFilmSource, client: aiohttp.ClientSession, layout: FilmLayout) -> AsyncIterator[Viewer]:
    """Return a viewer whose gateway soon loses patience with browsers."""
    gateway = Gateway(source, timings=GatewayTimings(beat_s=0.01, limit_s=0.05))
    await gateway.start()
    yield Viewer(gateway, client, layout, (await gateway.open_session(MEDIA)).token)
    await gateway.close()


async def test_past_the_limit_a_browser_is_cut_off_and_may_ask_again(hasty: Viewer, source: MemoryFilmSource) -> None:
    hasty.agent = "Mozilla/5.0 (X11; Linux x86_64)"
    async with await hasty.begin("720/2.m4s") as answer:
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()
    async with await hasty.begin("720/2.m4s") as answer:
        await source.put(MEDIA, "720", 2, BODY)
        assert without_free_boxes(await answer.read()) == BODY


async def test_a_player_that_would_skip_the_segment_waits_without_a_limit(
    hasty: Viewer, source: MemoryFilmSource
) -> None:
    hasty.agent = "Lavf/61.7.100"
    async with await hasty.begin("720/2.m4s") as answer:
        assert await answer.content.readexactly(16 * 10) == FREE_BOX * 10
        await source.put(MEDIA, "720", 2, BODY)
        assert without_free_boxes(await answer.read()) == BODY


async def test_a_wait_ends_with_the_piece_or_without_an_end(viewer: Viewer, source: MemoryFilmSource) -> None:
    error = ExpectedError(ErrorCode.RESULT_LOST, "It is gone; it will be made again.")
    async with await viewer.begin("720/2.m4s") as answer:
        await source.fail(MEDIA, "720", 2, error)
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()


async def test_the_paused_job_answers_503_at_once(viewer: Viewer, source: MemoryFilmSource) -> None:
    await source.put(MEDIA, "720", 0, BODY)
    await source.set_paused(MEDIA, paused=True)
    async with await viewer.begin("720/1.m4s") as answer:
        assert answer.status == 503
        assert answer.headers["X-Error-Code"] == "not-done"
        assert b"resume" in await answer.read()
    async with await viewer.begin("720/0.m4s") as answer:
        assert answer.status == 200


async def test_a_pause_ends_a_wait(viewer: Viewer, source: MemoryFilmSource) -> None:
    async with await viewer.begin("720/1.m4s") as answer:
        await source.set_paused(MEDIA, paused=True)
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()


async def test_a_film_that_goes_ends_a_wait(viewer: Viewer, source: MemoryFilmSource) -> None:
    async with await viewer.begin("720/1.m4s") as answer:
        del source._layouts[MEDIA]
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()
    assert (await viewer.get("master.m3u8"))[0] == 404


@pytest.mark.parametrize(
    ("code", "status"), [(ErrorCode.RESULT_LOST, 503), (ErrorCode.NO_SUCH_ID, 404), (ErrorCode.INTERNAL, 500)]
)
async def test_a_piece_that_cannot_be_read_says_why(
    viewer: Viewer, source: MemoryFilmSource, code: ErrorCode, status: int
) -> None:
    await source.put(MEDIA, "720", 0, BODY)
    await source.fail(MEDIA, "720", 0, ExpectedError(code, "Words."))
    async with await viewer.begin("720/0.m4s") as answer:
        assert (answer.status, answer.headers["X-Error-Code"], await answer.read()) == (status, str(code), b"Words.\n")


async def test_a_seek_closes_the_waits_it_leaves_behind(viewer: Viewer, source: MemoryFilmSource) -> None:
    async with await viewer.begin("720/1.m4s") as left, await viewer.begin("720/3.m4s") as target:
        await wait_until_waiting(viewer.gateway, viewer.token, {1, 3})
        await viewer.gateway.seek(viewer.token, 15_000)
        with pytest.raises(aiohttp.ClientPayloadError):
            await left.read()
        await source.put(MEDIA, "720", 3, BODY)
        assert without_free_boxes(await target.read()) == BODY


async def test_a_seek_leaves_other_players_alone(viewer: Viewer, source: MemoryFilmSource, layout: FilmLayout) -> None:
    token = (await viewer.gateway.open_session(MEDIA)).token
    other = Viewer(viewer.gateway, viewer.client, layout, token)
    async with await other.begin("720/1.m4s") as answer:
        await viewer.gateway.seek(viewer.token, 15_000)
        await source.put(MEDIA, "720", 1, BODY)
        assert without_free_boxes(await answer.read()) == BODY


async def test_until_the_target_is_asked_for_a_seek_refuses_leftovers_at_once(
    viewer: Viewer, source: MemoryFilmSource
) -> None:
    await viewer.gateway.seek(viewer.token, 15_000)
    async with await viewer.begin("720/1.m4s") as leftover:
        assert leftover.status == 503
    assert source.wanted == []
    async with await viewer.begin("720/3.m4s") as target, await viewer.begin("a0/2.m4s") as leftover:
        assert (target.status, leftover.status) == (200, 503)
    async with await viewer.begin("720/3.m4s") as target, await viewer.begin("720/2.m4s") as next_one:
        assert {target.status, next_one.status} == {200}
        await source.put(MEDIA, "720", 2, BODY)
        assert without_free_boxes(await next_one.read()) == BODY


async def test_a_player_that_goes_away_stops_waiting(viewer: Viewer) -> None:
    answer = await viewer.begin("720/2.m4s")
    await wait_until_waiting(viewer.gateway, viewer.token, {2})
    answer.close()
    await wait_until_waiting(viewer.gateway, viewer.token, set())


async def test_pieces_of_another_plan_are_never_served(viewer: Viewer, source: MemoryFilmSource) -> None:
    await source.put(MEDIA, "720", 0, BODY)
    async with await viewer.begin("720/1.m4s") as waiting:
        source.add_film(MEDIA, film_layout(make_plan(fingerprint="other")))
        await source.put(MEDIA, "720", 1, BODY)
        with pytest.raises(aiohttp.ClientPayloadError):
            await waiting.read()
    async with await viewer.begin("720/0.m4s") as answer:
        assert answer.status == 404
    async with await viewer.begin("720/index.m3u8") as answer:
        assert answer.status == 404


@pytest.mark.parametrize("piece", ["720/99.m4s", "none/0.m4s", "none/init.mp4", "none/index.m3u8"])
async def test_what_the_film_does_not_have_is_404(viewer: Viewer, piece: str) -> None:
    async with await viewer.begin(piece) as answer:
        assert answer.status == 404


async def test_stills_are_served(viewer: Viewer, source: MemoryFilmSource) -> None:
    source.put_still(MEDIA, StillKind.POSTER, 0, b"poster")
    source.put_still(MEDIA, StillKind.SHEET, 1, b"sheet")
    assert (await viewer.get("poster.jpg"))[:2] == (200, b"poster")
    status, body, headers = await viewer.get("sheets/1.jpg")
    assert (status, body, headers["Content-Type"]) == (200, b"sheet", "image/jpeg")
    assert (await viewer.get("sheets/7.jpg"))[0] == 404


async def test_a_closed_token_is_unknown(viewer: Viewer) -> None:
    async with await viewer.begin("720/2.m4s") as answer:
        viewer.gateway.close_session(viewer.token)
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()
    assert (await viewer.get("master.m3u8"))[0] == 404
    viewer.gateway.close_session(viewer.token)
    with pytest.raises(ExpectedError) as caught:
        await viewer.gateway.seek(viewer.token, 0)
    assert caught.value.code is ErrorCode.NO_SUCH_ID


async def test_a_session_needs_a_film(gateway: Gateway) -> None:
    with pytest.raises(ExpectedError) as caught:
        await gateway.open_session("0" * 32)
    assert caught.value.code is ErrorCode.NO_SUCH_ID


async def test_addresses_carry_an_unguessable_token(gateway: Gateway) -> None:
    first, second = await gateway.open_session(MEDIA), await gateway.open_session(MEDIA)
    assert first.token != second.token
    assert len(first.token) >= 43
    assert first.master == f"http://127.0.0.1:{gateway.port}/{first.token}/master.m3u8"
    assert first.auto.endswith("/auto.m3u8")
    assert first.sheets is not None
    assert first.sheets.endswith(f"{first.token}/sheets/")


async def test_the_gateway_closes_within_a_second(
    source: MemoryFilmSource, client: aiohttp.ClientSession, layout: FilmLayout
) -> None:
    gateway = Gateway(source)
    await gateway.start()
    viewer = Viewer(gateway, client, layout, (await gateway.open_session(MEDIA)).token)
    assert (await viewer.get("master.m3u8"))[0] == 200
    answers = [await viewer.begin(f"720/{number}.m4s") for number in range(3)]
    await wait_until_waiting(gateway, viewer.token, {0, 1, 2})
    started_at = time.monotonic()
    await gateway.close()
    assert time.monotonic() - started_at < 1
    for answer in answers:
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()
    await gateway.close()
