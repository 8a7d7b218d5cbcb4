"""The devices that this engine talks to: one session each, over the two channels of a link.

::

    serve(link) ──► Hello … ──► talking ──► the channel or the session ends ──► gone, claims no longer wait for it
                                  │
         control ◄── session ◄── queue's thread     rows, claims, presence        (ordered, small)
         bulk    ◄── shards  ◄── storage threads    sealed shards, both ways      (4 MiB each)

The session's decisions are in ``app.sync.session``; here is its I/O. A peer's bad message ends its session only.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable

import msgspec

from app.core.errors import ErrorCode, ErrorInfo, ExpectedError, StaleError, mistake_of_ours
from app.engine.kernel import Kernel
from app.queue.abilities import Abilities
from app.queue.rows import Lease
from app.queue.settling import Settling
from app.storage.opening import Storage
from app.storage.shard_store import missing_shard
from app.storage.source import open_source, read_at
from app.storage.source_ledger import SourceState
from app.sync.channel import Channel, ChannelClosedError, bad_message
from app.sync.membership import Membership
from app.sync.session import (
    OLDEST_VERSION,
    VERSION,
    Goodbye,
    Hello,
    PeerSession,
    Presence,
    Spoken,
    Statements,
    encode_spoken,
)
from app.sync.shard_exchange import (
    MOST_ASKED,
    MOST_NAMES,
    Ask,
    AskHave,
    Asking,
    AskSource,
    Have,
    NoShard,
    NoSource,
    Question,
    Shard,
    SourceBytes,
    decode_exchanged,
    encode_exchanged,
)

_log = logging.getLogger(__name__)

GREETING_S = 10.0
COPY_WINDOW_S = 120.0
COPY_SIGNS = 4
"""So many sessions that took the place of a living one within that time: no reconnecting device does that."""
REACH_S = 20.0
"""How long somebody who waits for a piece is made to wait for a device that is away."""
_MOST_GIVEN = 2 * MOST_ASKED
_FETCH_S = 60.0
_RATED_BYTES = 64 << 10
_NEW_SHARE = 0.2
_GOODBYE_S = 2.0


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """The two channels between this device and another."""

    control: Channel
    bulk: Channel

    async def close(self, reason: str = "") -> None:
        """End both."""
        await asyncio.gather(self.control.close(reason), self.bulk.close(reason))


class LinkRate:
    """How fast a peer gives, from its answers."""

    def __init__(self) -> None:
        self.bytes_per_s = 0.0

    def note(self, size_bytes: int, took_s: float) -> None:
        """Note an answer; small ones say more of the delay than of the rate and are passed over."""
        if size_bytes < _RATED_BYTES or took_s <= 0:
            return
        rate = size_bytes / took_s
        self.bytes_per_s = rate if not self.bytes_per_s else self.bytes_per_s + _NEW_SHARE * (rate - self.bytes_per_s)


class PeerView(msgspec.Struct, frozen=True, kw_only=True):
    """A connected device, as the choice of tasks and the interface see it."""

    device: str
    name: str
    path: str
    abilities: Abilities
    bytes_per_s: float = 0.0
    """Measured rate of what it gave; 0 while nothing was measured."""


TakeStatements = Callable[[tuple[bytes, ...]], Awaitable[object]]


async def _take_none(_statements: tuple[bytes, ...]) -> None:
    """Keep nothing."""


class Peers:
    """All sessions of one engine; lives on its event loop."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.abilities = Abilities(works=False, speed=0)
        """What this device can do, as it was announced last."""
        self._sessions: dict[str, _Session] = {}
        self._settling = Settling()
        self._settled: dict[str, asyncio.Future[None]] = {}
        self._arriving: dict[str, asyncio.Future[None]] = {}
        self.reach_others: Callable[[], bool] = lambda: False
        """Called when somebody waits for what another device may have; returns whether any is being tried now."""
        self.is_member: Callable[[str], bool] = lambda _device: True
        """Whether a device, by id, belongs to the space now."""
        self.greeted: Callable[[str, int], None] = lambda _device, _port: None
        """Called with a device that has introduced itself, and the port at which it listens; 0 when it does not."""
        self.troubles: dict[str, ErrorInfo] = {}
        """Device → what is wrong with it, though it talks."""
        self._displaced: dict[str, list[float]] = {}
        self.take_statements: TakeStatements = _take_none
        """Called with what a peer says about who belongs to the space; raises when that is not what it seems."""

    def connected(self) -> tuple[PeerView, ...]:
        """Return the devices that can be heard now."""
        views = (session.view() for session in self._sessions.values())
        return tuple(view for view in views if view is not None)

    async def serve(self, link: Link, *, device: str | None = None) -> ErrorInfo:
        """Talk over ``link`` until it ends; return why it did. ``device`` is who its channels have proven is there."""
        kernel, now_s = self._kernel, self._kernel.clock.monotonic_s()
        hello = Hello(
            oldest=OLDEST_VERSION,
            newest=VERSION,
            device=kernel.device.id,
            boot=kernel.device.boot,
            name=kernel.device.name,
            port=kernel.session_port,
            abilities=self.abilities,
        )
        talk = await kernel.queue(lambda store: PeerSession(store=store, hello=hello, now_s=now_s, expected=device))
        session = _Session(self, kernel, link, talk, told=hello.abilities)
        try:
            await session.run()
            ended = ErrorInfo(code=ErrorCode.DISCONNECTED, message="The connection ended.")
        except ExpectedError as error:
            ended = error.info
        except Exception as error:  # noqa: BLE001 (the edge of a session: a bug ends this one, and nothing else)
            _log.exception("the session with another device")
            ended = mistake_of_ours(error).info
        finally:
            await self._leave(session)
        return ended

    async def close(self) -> None:
        """End all sessions, saying so."""
        await asyncio.gather(*(one.end("Hearthreel was closed there.") for one in tuple(self._sessions.values())))

    async def end_all_but(self, members: Collection[str]) -> None:
        """End the sessions of devices that do not belong to the space any more."""
        out = [one for device, one in self._sessions.items() if device not in members]
        await asyncio.gather(*(one.end("This device does not belong to the space.") for one in out))

    def announce(self, abilities: Abilities) -> None:
        """Tell all peers what this device can do now, if that changed."""
        if abilities != self.abilities:
            self.abilities = abilities
            for session in self._sessions.values():
                session.wake()

    # Claims

    async def settle(self, task_id: str, lease: Lease) -> None:
        """Announce a claim and wait until it has settled; raises ``StaleError`` when it does not hold any more."""
        peers = {device: one for device, one in self._sessions.items() if one.is_talking}
        if peers:
            self._settling.announce(task_id, lease, peers=peers, now_s=self._kernel.clock.monotonic_s())
            settled = self._settled[lease.token] = asyncio.get_running_loop().create_future()
            try:
                await asyncio.gather(*(one.announce(task_id, lease.token) for one in peers.values()))
                await self._wait_settled(settled)
            finally:
                self._settled.pop(lease.token, None)
        if not await self._kernel.queue(lambda store: store.holds(task_id, lease)):
            raise StaleError("another device has the better claim, or it is not wanted any more")

    async def _wait_settled(self, settled: asyncio.Future[None]) -> None:
        while not settled.done():
            self._look_settled()
            moment = self._settling.next_moment_s()
            left_s = 0.05 if moment is None else max(0.05, moment - self._kernel.clock.monotonic_s())
            await asyncio.wait({settled}, timeout=left_s)

    def claim_answered(self, device: str, token: str) -> None:
        """Note that a peer has merged a claim, and what it said of it is merged here."""
        self._settling.answered(device, token)
        self._look_settled()

    def _look_settled(self) -> None:
        for claim in self._settling.take_settled(self._kernel.clock.monotonic_s()):
            future = self._settled.get(claim.lease.token)
            if future is not None and not future.done():
                future.set_result(None)

    # Shards

    async def bring(self, capability: str) -> None:
        """Have everything here that reading ``capability`` needs (of a bundle, its list).

        Raises ``ExpectedError`` missing-shard when no device that can be reached within some seconds has a piece.
        """
        while missing := await self._kernel.store(lambda storage: storage.vault.missing_of(capability)):
            await asyncio.gather(*(self._bring_shard(name) for name in missing))

    async def _bring_shard(self, name: str) -> None:
        arriving = self._arriving.get(name)
        if arriving is None:
            arriving = self._arriving[name] = asyncio.ensure_future(self._fetch(name))
            arriving.add_done_callback(lambda _: self._arriving.pop(name, None))
        await asyncio.shield(arriving)

    async def _fetch(self, name: str) -> None:
        asked: set[_Session] = set()
        deadline_s = self._kernel.clock.monotonic_s() + REACH_S
        while True:
            others = [one for one in self._sessions.values() if one not in asked and one.is_talking]
            if not others:
                await self._reach_more(name, deadline_s)
                continue
            session = min(others, key=lambda one: one.load)
            asked.add(session)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FETCH_S):
                    if await session.fetch(name):
                        return

    async def _reach_more(self, name: str, deadline_s: float) -> None:
        """Wait until something changes, as long as a device that may have a shard may still be reached."""
        left_s = deadline_s - self._kernel.clock.monotonic_s()
        if left_s <= 0 or not self.reach_others():
            raise missing_shard(name)
        with contextlib.suppress(TimeoutError), self._kernel.changed.watch() as changed:
            await asyncio.wait_for(changed.wait(), min(left_s, 1.0))

    def is_connected(self, device: str) -> bool:
        """Whether a device can be heard now."""
        return device in self._sessions

    async def read_source(self, fingerprint: str, offset: int, length: int) -> bytes:
        """Return bytes of a user's file that a connected device holds; raises ``ExpectedError`` disconnected."""
        for session in sorted(self._sessions.values(), key=lambda one: one.fingerprints_denied(fingerprint)):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FETCH_S):
                    data = await session.read_source(fingerprint, offset, length)
                if data is not None:
                    return data
        raise ExpectedError(ErrorCode.DISCONNECTED, "No device that holds the film's file can be reached now.")

    async def have(self, names: Iterable[str]) -> frozenset[str]:
        """Return which of some shards any connected device has."""
        wanted = tuple(names)
        found: set[str] = set()
        for session in tuple(self._sessions.values()):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FETCH_S):
                    found |= await session.ask_have(tuple(name for name in wanted if name not in found))
        return frozenset(found)

    # What sessions say

    def joined(self, session: _Session) -> _Session | None:
        """Take a session in whose peer has introduced itself; return an older one with the same device.

        Raises ``ExpectedError`` not-trusted when the device does not belong to the space any more.
        """
        if not self.is_member(session.device):
            raise ExpectedError(ErrorCode.NOT_TRUSTED, "This device does not belong to the space.")
        older = self._sessions.get(session.device)
        self._sessions[session.device] = session
        if older is not None:
            self._note_displaced(session.device, session.name)
        self.greeted(session.device, session.port)
        self._kernel.changed.set()
        return older

    def _note_displaced(self, device: str, name: str) -> None:
        """Note that a session took the place of one that was alive; two computers that do so in turn are copies."""
        now_s = self._kernel.clock.monotonic_s()
        recent = [at_s for at_s in self._displaced.get(device, ()) if now_s - at_s < COPY_WINDOW_S]
        self._displaced[device] = [*recent, now_s]
        if len(recent) + 1 >= COPY_SIGNS:
            message = (
                f"Two computers seem to use copies of the same data directory (“{name}”); delete one of the "
                "copies and pair that computer as a new device."
            )
            self.troubles[device] = ErrorInfo(code=ErrorCode.NOT_TRUSTED, message=message)
            _log.warning("%s", message)

    async def _leave(self, session: _Session) -> None:
        if self._sessions.get(session.device) is session:
            del self._sessions[session.device]
            self._settling.lost(session.device)
            self._look_settled()
        session.drop_asked()
        await session.link.close()
        self._kernel.changed.set()


class _Session:
    """The I/O of one session."""

    def __init__(self, peers: Peers, kernel: Kernel, link: Link, talk: PeerSession, *, told: Abilities) -> None:
        self._peers = peers
        self._kernel = kernel
        self.link = link
        self._talk = talk
        self._asking = Asking()
        self._questions: asyncio.Queue[Question] = asyncio.Queue()
        self._giving = 0
        self._awaited: dict[str, asyncio.Future[bool]] = {}
        self._have: dict[int, asyncio.Future[frozenset[str]]] = {}
        self._reads: dict[int, asyncio.Future[bytes | None]] = {}
        self._denied: set[str] = set()
        self._last_ask = 0
        self._rate = LinkRate()
        self._told = told
        self._stated: set[bytes] = set()
        self._stated_for: Membership | None = None
        self._woken = asyncio.Event()

    @property
    def device(self) -> str:
        """The peer's id; empty before it has introduced itself."""
        return self._talk.peer.device if self._talk.peer else ""

    @property
    def name(self) -> str:
        """The peer's name."""
        return self._talk.peer.name if self._talk.peer else ""

    @property
    def port(self) -> int:
        """Where the peer listens; 0 when it does not."""
        return self._talk.peer.port if self._talk.peer else 0

    @property
    def is_talking(self) -> bool:
        """Whether the peer has introduced itself."""
        return self._talk.peer is not None

    @property
    def load(self) -> int:
        """How many shards are asked for."""
        return self._asking.load

    def view(self) -> PeerView | None:
        """Return the peer as others see it."""
        peer = self._talk.peer
        if peer is None:
            return None
        return PeerView(
            device=peer.device,
            name=peer.name,
            path=self.link.control.path,
            abilities=peer.abilities,
            bytes_per_s=self._rate.bytes_per_s,
        )

    async def run(self) -> None:
        """Talk until the link or the session ends; raises why."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._listen())
                group.create_task(self._speak())
                group.create_task(self._exchange())
        except BaseExceptionGroup as errors:
            first: BaseException = errors
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]
            await self._say_goodbye(first)
            raise first from None

    async def end(self, reason: str) -> None:
        """End the session from this side."""
        with contextlib.suppress(ExpectedError, TimeoutError):
            async with asyncio.timeout(_GOODBYE_S):
                await self._say((Goodbye(reason=reason),))
        await self.link.close(reason)

    async def _say_goodbye(self, error: BaseException) -> None:
        if isinstance(error, ExpectedError) and not isinstance(error, ChannelClosedError):
            await self.end(error.message[:500])

    # Control

    async def _say(self, messages: Iterable[Spoken]) -> None:
        for message in messages:
            await self.link.control.send(encode_spoken(message))

    async def _listen(self) -> None:
        await self._say(self._talk.start())
        while True:
            async with asyncio.timeout(None if self.is_talking else GREETING_S):
                data = await self.link.control.receive()
            await self._hear(data)

    async def _hear(self, data: bytes) -> None:
        now_s = self._kernel.clock.monotonic_s()
        heard = await self._kernel.queue(lambda _store: self._talk.receive(data, now_s))
        if heard.greeted:
            older = self._peers.joined(self)
            if older is not None:
                await older.end("A newer connection of the same device took over.")
        if heard.changed:
            self._kernel.note_change()
        if heard.answered:
            self._peers.claim_answered(self.device, heard.answered)
        if heard.statements:
            self._stated.update(heard.statements)
            await self._peers.take_statements(heard.statements)
        if heard.own_news:
            _log.warning("others know of work of this device that it does not know: it was restored from a backup")
        await self._say(heard.replies)

    async def _speak(self) -> None:
        """Say what is to be said when rows changed, and signs of life."""
        with self._kernel.changed.watch() as self._woken:
            while True:
                self._woken.clear()
                now_s = self._kernel.clock.monotonic_s()
                await self._say(await self._kernel.queue(lambda _store, now=now_s: self._talk.tick(now)))  # type: ignore[misc]
                await self._say(self._news_of_abilities())
                await self._say(await self._news_of_statements())
                delay_s = max(0.05, self._talk.next_moment_s() - self._kernel.clock.monotonic_s())
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), delay_s)

    def wake(self) -> None:
        """Look for something to say."""
        self._woken.set()

    def _news_of_abilities(self) -> tuple[Spoken, ...]:
        if not self.is_talking or self._peers.abilities == self._told:
            return ()
        self._told = self._peers.abilities
        return (Presence(abilities=self._told),)

    async def _news_of_statements(self) -> tuple[Spoken, ...]:
        if not self.is_talking:
            return ()
        membership = await self._kernel.members(lambda store: store.membership())
        if membership is self._stated_for:  # it is judged anew with every new statement, and with nothing else
            return ()
        self._stated_for = membership
        known = await self._kernel.members(lambda store: [one.encoded for one in store.statements()])
        fresh = tuple(one for one in known if one not in self._stated)
        self._stated.update(fresh)
        return (Statements(encoded=fresh),) if fresh else ()

    async def announce(self, task_id: str, token: str) -> None:
        """Tell of a claim; a link that just ended is not waited for."""
        with contextlib.suppress(ExpectedError):
            await self._say(await self._kernel.queue(lambda _store: self._talk.claim(task_id, token)))

    # Shards. Whoever reads must never wait for what it sends, or two devices that give each other would both stand
    # still: questions leave by a queue of their own, and what is given is bounded by what may be asked at once.

    async def fetch(self, name: str) -> bool:
        """Ask for a shard and put it into the vault; False when the peer does not have it, or is gone.

        Raises ``ExpectedError`` when it came and cannot be kept (disk-full, read-only).
        """
        awaited = self._awaited.get(name)
        if awaited is None:
            awaited = self._awaited[name] = asyncio.get_running_loop().create_future()
            self._ask(self._asking.ask(name))
        return await asyncio.shield(awaited)

    async def ask_have(self, names: tuple[str, ...]) -> frozenset[str]:
        """Return which of ``names`` the peer has; none when it is gone."""
        found: set[str] = set()
        for start in range(0, len(names), MOST_NAMES):
            ask = self._last_ask = self._last_ask + 1
            answer = self._have[ask] = asyncio.get_running_loop().create_future()
            try:
                self._ask((AskHave(ask=ask, names=names[start : start + MOST_NAMES]),))
                found |= await answer
            finally:
                del self._have[ask]
        return frozenset(found)

    def fingerprints_denied(self, fingerprint: str) -> bool:
        """Whether the peer said that it does not hold a file."""
        return fingerprint in self._denied

    async def read_source(self, fingerprint: str, offset: int, length: int) -> bytes | None:
        """Return bytes of the peer's own file; None when it does not have it, or is gone."""
        loop = asyncio.get_running_loop()
        ask = self._last_ask = self._last_ask + 1
        answer: asyncio.Future[bytes | None] = loop.create_future()
        self._reads[ask] = answer
        started_s = loop.time()
        try:
            self._ask((AskSource(ask=ask, fingerprint=fingerprint, offset=offset, length=length),))
            data = await answer
        finally:
            del self._reads[ask]
        if data is None:
            self._denied.add(fingerprint)
        else:
            self._denied.discard(fingerprint)
            self._rate.note(len(data), loop.time() - started_s)
        return data

    def drop_asked(self) -> None:
        """Answer all who wait for this peer: it is gone."""
        for awaited in self._awaited.values():
            if not awaited.done():
                awaited.set_result(False)
        for answer in self._have.values():
            if not answer.done():
                answer.set_result(frozenset())
        for read in self._reads.values():
            if not read.done():
                read.set_result(None)

    def _ask(self, questions: Iterable[Question]) -> None:
        for question in questions:
            self._questions.put_nowait(question)

    async def _send_questions(self) -> None:
        while True:
            await self.link.bulk.send(encode_exchanged(await self._questions.get()))

    async def _exchange(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._send_questions())
            while True:
                message = decode_exchanged(await self.link.bulk.receive())
                match message:
                    case Ask() | AskHave() | AskSource():
                        self._giving += 1
                        if self._giving > _MOST_GIVEN:
                            raise bad_message("it asks for too much at once")
                        group.create_task(self._answer(message))
                    case Have():
                        answer = self._have.get(message.ask)
                        if answer is not None and not answer.done():
                            answer.set_result(frozenset(message.names))
                    case SourceBytes() | NoSource():
                        read = self._reads.get(message.ask)
                        if read is not None and not read.done():
                            read.set_result(message.data if isinstance(message, SourceBytes) else None)
                    case Shard() | NoShard():
                        await self._take(message)

    async def _answer(self, question: Question) -> None:
        try:
            answer = await self._kernel.store(lambda storage: answer_to(storage, question))
            await self.link.bulk.send(encode_exchanged(answer))
        finally:
            self._giving -= 1

    async def _take(self, message: Shard | NoShard) -> None:
        was_asked, next_asks = self._asking.answered(message.name)
        self._ask(next_asks)
        awaited = self._awaited.pop(message.name, None)
        if not was_asked or awaited is None or awaited.done():
            return
        if isinstance(message, NoShard):
            awaited.set_result(False)
            return
        try:
            await self._kernel.store(lambda storage: storage.vault.take_shard(message.name, message.data))
        except ExpectedError as error:
            if error.code == ErrorCode.DAMAGED_SHARD:
                awaited.set_result(False)
            else:
                awaited.set_exception(error)
        else:
            awaited.set_result(True)


def answer_to(storage: Storage, question: Question) -> Shard | NoShard | Have | SourceBytes | NoSource:
    """Return what this device's vault has to say (on a storage thread)."""
    if isinstance(question, AskSource):
        data = _source_bytes(storage, question)
        return NoSource(ask=question.ask) if data is None else SourceBytes(ask=question.ask, data=data)
    if isinstance(question, AskHave):
        return Have(ask=question.ask, names=tuple(name for name in question.names if storage.vault.has_shard(name)))
    try:
        return Shard(name=question.name, data=storage.vault.give_shard(question.name))
    except ExpectedError:
        return NoShard(name=question.name)


def _source_bytes(storage: Storage, question: AskSource) -> bytes | None:
    """Return bytes of the user's own file, as long as it still is what was added; None when they cannot be had."""
    for source in storage.sources.find_by_fingerprint(question.fingerprint):
        try:
            if storage.sources.state(source) is not SourceState.PRESENT:
                continue
            with open_source(source.path) as file:
                data: bytes = read_at(file, question.offset, question.length)
                return data
        except ExpectedError:
            continue
    return None
