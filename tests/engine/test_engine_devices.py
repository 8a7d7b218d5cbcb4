"""Devices of one owner: pairing engines with each other, the words, revoking, and what follows for the vault key."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from app.core.clock import ManualClock
from app.core.errors import ErrorCode, ExpectedError
from app.core.paths import DataDir
from app.engine import api
from app.engine.local import LocalEngine
from app.storage.keys import open_keys
from app.sync.addresses import Address
from app.sync.pairing_discovery import MemoryDirectory
from app.sync.words import words_of

LOOPBACK = "127.0.0.1"


class Home:
    """Devices of this test's people, on data directories side by side."""

    def __init__(self, root: Path, stack: AsyncExitStack) -> None:
        self.root = root
        self.directory = MemoryDirectory()
        self._stack = stack

    async def device(self, name: str, *, work: bool = False) -> LocalEngine:
        """Start the engine of a device."""
        return await self._stack.enter_async_context(self.running(name, work=work))

    @asynccontextmanager
    async def running(self, name: str, *, work: bool = False) -> AsyncIterator[LocalEngine]:
        """Run the engine of a device for a while."""
        data = DataDir(root=self.root / name)
        engine = await LocalEngine.start(data, work=work, clock=ManualClock(), directory=self.directory)
        try:
            yield engine
        finally:
            await engine.close()


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    async with AsyncExitStack() as stack:
        yield Home(tmp_path, stack)


async def refused(work: Awaitable[object]) -> ErrorCode:
    with pytest.raises(ExpectedError) as caught:
        await work
    assert caught.value.message.endswith(".")
    return caught.value.code


async def pair(inviter: LocalEngine, joiner: LocalEngine) -> tuple[api.PairedSnapshot, api.PairedSnapshot]:
    """Pair two devices; return what each says of the other."""
    shown = await inviter.call(api.OpenPairing(host=LOOPBACK))
    waiting = asyncio.create_task(inviter.call(api.AwaitPairing(code=shown.code)))
    try:
        joined = await joiner.call(api.JoinSpace(code=shown.code, at=shown.addresses[0]))
        return await waiting, joined
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def space_of(engine: LocalEngine) -> api.SpaceSnapshot:
    return await engine.call(api.ListDevices())


async def states(engine: LocalEngine) -> dict[str, str]:
    return {one.id: one.state for one in (await space_of(engine)).devices}


def id_of(engine: LocalEngine) -> str:
    return engine._kernel.device.id


async def tell(one: LocalEngine, *others: LocalEngine) -> None:
    """Let devices hear what one of them knows of the space."""
    known = await one._kernel.members(lambda store: [each.encoded for each in store.statements()])
    for other in others:
        await other.devices.take_statements(known)


async def share(*engines: LocalEngine) -> None:
    """Let all hear of everything."""
    for _ in range(3):
        for one in engines:
            await tell(one, *(other for other in engines if other is not one))


# Pairing


async def test_paired_devices_list_the_same_and_hold_the_same_keys(home: Home) -> None:
    a, b = await home.device("a"), await home.device("b")
    at_a, at_b = await pair(a, b)
    assert (at_a.id, at_b.id, at_a.devices, at_b.devices) == (id_of(b), id_of(a), 2, 2)
    one, two = await space_of(a), await space_of(b)
    assert (one.owner, one.vault_key) == (two.owner, two.vault_key)
    assert {each.id: each.this for each in one.devices} == {id_of(a): True, id_of(b): False}
    assert {each.id: each.this for each in two.devices} == {id_of(a): False, id_of(b): True}
    assert {each.added_by for each in one.devices} == {"words", one.devices[0].name}
    assert (one.words_pending, two.words_pending) == (True, False)


async def test_pairing_survives_a_restart(home: Home) -> None:
    async with home.running("a") as a, home.running("b") as b:
        await pair(a, b)
        before = await space_of(b)
    async with home.running("b") as b:
        assert await space_of(b) == before


async def test_the_new_device_can_invite_the_next(home: Home) -> None:
    a, b, c = [await home.device(name) for name in "abc"]
    await pair(a, b)
    await pair(b, c)
    assert len(await states(c)) == 3
    await tell(c, a)
    assert await states(a) == await states(c)
    assert len({(await space_of(one)).vault_key for one in (a, b, c)}) == 1


async def test_the_code_alone_is_enough_where_devices_find_each_other(home: Home) -> None:
    a, b = await home.device("a"), await home.device("b")
    shown = await a.call(api.OpenPairing(host=LOOPBACK))
    assert shown.found_by_code
    joined, _ = await asyncio.gather(b.call(api.JoinSpace(code=shown.code)), a.call(api.AwaitPairing(code=shown.code)))
    assert joined.devices == 2
    assert await home.directory.find_inviter(shown.code[:3]) == (), "the code is not announced any more"


async def test_a_code_that_nobody_shows_is_told(home: Home) -> None:
    b = await home.device("b")
    assert await refused(b.call(api.JoinSpace(code="111-222-333"))) is ErrorCode.UNREACHABLE
    assert await refused(b.call(api.JoinSpace(code="111-222"))) is ErrorCode.WRONG_CODE
    assert await refused(b.call(api.JoinSpace(code="111-222-333", at="nowhere"))) is ErrorCode.BAD_SETTING


async def test_three_wrong_codes_void_the_code_and_change_nothing(home: Home) -> None:
    a, b = await home.device("a"), await home.device("b")
    before = await space_of(a), await space_of(b)
    shown = await a.call(api.OpenPairing(host=LOOPBACK))
    waiting = asyncio.create_task(a.call(api.AwaitPairing(code=shown.code)))
    wrong = shown.code[:-1] + str((int(shown.code[-1]) + 1) % 10)
    for _ in range(3):
        assert await refused(b.call(api.JoinSpace(code=wrong, at=shown.addresses[0]))) is ErrorCode.WRONG_CODE
    assert await refused(waiting) is ErrorCode.CODE_EXPIRED
    assert await refused(b.call(api.JoinSpace(code=shown.code, at=shown.addresses[0]))) is ErrorCode.UNREACHABLE
    assert (await space_of(a), await space_of(b)) == before


async def test_a_second_code_makes_the_first_void(home: Home) -> None:
    a = await home.device("a")
    first = await a.call(api.OpenPairing(host=LOOPBACK))
    await a.call(api.OpenPairing(host=LOOPBACK))
    assert await refused(a.call(api.AwaitPairing(code=first.code))) is ErrorCode.CODE_EXPIRED


async def test_who_stops_waiting_withdraws_the_code(home: Home) -> None:
    a, b = await home.device("a"), await home.device("b")
    shown = await a.call(api.OpenPairing(host=LOOPBACK))
    waiting = asyncio.create_task(a.call(api.AwaitPairing(code=shown.code)))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert await refused(b.call(api.JoinSpace(code=shown.code, at=shown.addresses[0]))) is ErrorCode.UNREACHABLE


async def test_pairing_again_heals_and_changes_nothing_else(home: Home) -> None:
    a, b = await home.device("a"), await home.device("b")
    await pair(a, b)
    before = await space_of(b)
    await pair(a, b)
    await pair(b, a)
    assert await space_of(b) == before == (await space_of(b))


async def test_the_inviters_address_is_remembered(home: Home) -> None:
    a, b = await home.device("a"), await home.device("b")
    a._kernel.session_port = 4321
    await pair(a, b)
    addresses = await b._kernel.members(lambda store: store.addresses_of(id_of(a)))
    assert addresses[0] == Address(host=LOOPBACK, port=4321)


async def test_the_first_that_joins_learns_where_the_inviter_listens(home: Home) -> None:
    """A device that was alone begins to listen only now."""
    (home.root / "a").mkdir()
    (home.root / "a" / "settings.json").write_text('{"listen.host": "127.0.0.1", "discovery": false}')
    a, b = await home.device("a", work=True), await home.device("b")
    assert a._kernel.session_port == 0
    await pair(a, b)
    addresses = await b._kernel.members(lambda store: store.addresses_of(id_of(a)))
    assert Address(host=LOOPBACK, port=a._kernel.session_port) in addresses


async def test_without_announcements_the_code_needs_the_address(home: Home) -> None:
    a, b = await home.device("a"), await home.device("b")
    await a.call(api.SetConfig(key="listen.host", value=LOOPBACK))
    for one in (a, b):
        await one.call(api.SetConfig(key="discovery", value="off"))
    shown = await a.call(api.OpenPairing())
    assert not shown.found_by_code
    assert [address.partition(":")[0] for address in shown.addresses] == [LOOPBACK]
    assert await refused(b.call(api.JoinSpace(code=shown.code))) is ErrorCode.UNREACHABLE
    await asyncio.gather(b.call(api.JoinSpace(code=shown.link)), a.call(api.AwaitPairing(code=shown.code)))


# Whose library


async def test_an_unshared_library_joins_with_its_films(home: Home, library_root: Path) -> None:
    shutil.move(library_root, home.root / "b")
    a, b = await home.device("a"), await home.device("b")
    (film,) = await b.call(api.ListLibrary())
    await pair(a, b)
    assert await b.call(api.ListLibrary()) == (film,)
    assert (await b.call(api.VerifyVault())).clean
    assert await b.call(api.GetPoster(media_id=film.media_id)), "what was sealed with the former key can be read"


async def test_a_library_shared_with_others_is_not_mixed_and_neither_side_changes(home: Home) -> None:
    a, b, c = [await home.device(name) for name in "abc"]
    await pair(b, c)
    before = await space_of(a), await space_of(b)
    assert await refused(pair(a, b)) is ErrorCode.OTHER_SPACE
    assert (await space_of(a), await space_of(b)) == before


# The words


async def test_the_words_are_shown_until_they_are_confirmed(home: Home) -> None:
    a = await home.device("a")
    words = (await a.call(api.ShowWords())).words
    assert len(words) == 24
    assert await refused(a.call(api.ConfirmWords(words={1: words[0], 2: words[1]}))) is ErrorCode.BAD_WORDS
    wrong = {1: words[0], 2: words[1], 3: "zoo" if words[2] != "zoo" else "abandon"}
    assert await refused(a.call(api.ConfirmWords(words=wrong))) is ErrorCode.BAD_WORDS
    assert (await a.call(api.ShowWords())).words == words
    assert await a.call(api.ConfirmWords(words={3: words[2], 9: words[8], 24: words[23]}))
    assert await refused(a.call(api.ShowWords())) is ErrorCode.ALREADY_DONE
    assert not (home.root / "a" / "keys" / "owner-secret.json").exists()
    assert not (await space_of(a)).words_pending


async def test_a_joined_device_has_no_words(home: Home) -> None:
    a, b = await home.device("a"), await home.device("b")
    await pair(a, b)
    assert await refused(b.call(api.ShowWords())) is ErrorCode.ALREADY_DONE
    assert not (home.root / "b" / "keys" / "owner-secret.json").exists()


async def test_the_words_alone_make_a_new_device_the_owners(home: Home) -> None:
    a, b = await home.device("a"), await home.device("b")
    words = (await a.call(api.ShowWords())).words
    restored = await b.call(api.RestoreOwner(words=" ".join(words)))
    assert restored.owner == (await space_of(a)).owner
    assert [(one.id, one.state) for one in restored.devices] == [(id_of(b), "member")]
    assert not restored.words_pending
    await share(a, b)
    assert await states(a) == await states(b) == {id_of(a): "member", id_of(b): "member"}
    assert (await space_of(a)).vault_key == (await space_of(b)).vault_key


async def test_the_words_of_ones_own_owner_confirm_them(home: Home) -> None:
    a = await home.device("a")
    words = (await a.call(api.ShowWords())).words
    before = await states(a)
    assert not (await a.call(api.RestoreOwner(words=" ".join(words)))).words_pending
    assert await states(a) == before


async def test_a_shared_library_is_not_taken_to_another_owner_by_words(home: Home) -> None:
    a, b = await home.device("a"), await home.device("b")
    await pair(a, b)
    other = " ".join(words_of(bytes(32)))
    assert await refused(b.call(api.RestoreOwner(words=other))) is ErrorCode.OTHER_SPACE
    assert await refused(b.call(api.RestoreOwner(words="one two"))) is ErrorCode.BAD_WORDS


# Revoking


async def test_a_revoked_device_is_out_and_new_content_is_sealed_with_a_key_it_does_not_have(home: Home) -> None:
    a, b, c = [await home.device(name) for name in "abc"]
    await pair(a, b)
    await pair(a, c)
    old = (await space_of(a)).vault_key
    revoked = await a.call(api.RevokeDevice(device_id=id_of(b)[:8]))
    assert (revoked.device.id, revoked.device.state) == (id_of(b), "revoked")
    assert "nobody can take that back" in revoked.still_holds
    await share(a, b, c)
    keys = [(await space_of(one)).vault_key for one in (a, b, c)]
    assert keys == [revoked.vault_key, old, revoked.vault_key]
    assert old != revoked.vault_key
    assert a._kernel.storage.vault._key.id == revoked.vault_key
    assert await states(c) == {id_of(a): "member", id_of(b): "revoked", id_of(c): "member"}
    assert open_keys(home.root / "c" / "keys", vault_in_use=True).vault.id == revoked.vault_key


async def test_a_revoked_device_has_no_say_and_is_not_let_in_again(home: Home) -> None:
    a, b, c = [await home.device(name) for name in "abc"]
    await pair(a, b)
    await a.call(api.RevokeDevice(device_id=id_of(b)))
    assert await refused(pair(a, b)) is ErrorCode.REVOKED
    await tell(a, b)
    assert await refused(b.call(api.OpenPairing(host=LOOPBACK))) is ErrorCode.NOT_A_MEMBER
    assert await refused(b.call(api.RevokeDevice(device_id=id_of(a)))) is ErrorCode.NOT_A_MEMBER
    await pair(a, c)
    assert (await states(c))[id_of(b)] == "revoked"


async def test_a_revoked_device_comes_back_with_a_new_key_as_it_was_told(home: Home) -> None:
    a = await home.device("a")
    async with home.running("b") as b:
        await pair(a, b)
        old = id_of(b)
        await a.call(api.RevokeDevice(device_id=old))
    (home.root / "b" / "device.json").unlink()
    (home.root / "b" / "keys" / "identity.json").unlink()
    b = await home.device("b")
    assert id_of(b) != old
    await pair(a, b)
    assert await states(b) == {id_of(a): "member", old: "revoked", id_of(b): "member"}


async def test_devices_that_revoke_others_at_the_same_time_agree_in_the_end(home: Home) -> None:
    """Each rotates to a key that the other's revoked device was given: neither key may stay in use."""
    a, b, c, d = [await home.device(name) for name in "abcd"]
    for other in (b, c, d):
        await pair(a, other)
    await share(a, b, c, d)
    await a.call(api.RevokeDevice(device_id=id_of(c)))
    await b.call(api.RevokeDevice(device_id=id_of(d)))
    tainted = {(await space_of(one)).vault_key for one in (a, b)}
    assert len(tainted) == 2
    await share(a, b)
    (key,) = {(await space_of(one)).vault_key for one in (a, b)}
    assert key not in tainted
    await tell(a, c, d)
    assert {(await space_of(one)).vault_key for one in (c, d)}.isdisjoint({key})


async def test_a_quarrel_ends_with_the_words(home: Home) -> None:
    a, b = await home.device("a"), await home.device("b")
    await pair(a, b)
    words = " ".join((await a.call(api.ShowWords())).words)
    await a.call(api.RevokeDevice(device_id=id_of(b)))
    await b.call(api.RevokeDevice(device_id=id_of(a)))
    await share(a, b)
    assert set((await states(a)).values()) == {"revoked"}
    assert await refused(a.call(api.OpenPairing(host=LOOPBACK))) is ErrorCode.NOT_A_MEMBER
    await a.call(api.RestoreOwner(words=words))
    await share(a, b)
    assert await states(a) == await states(b) == {id_of(a): "member", id_of(b): "revoked"}


async def test_pairing_again_brings_the_side_that_was_not_heard(home: Home) -> None:
    """C heard only that the stolen A shut out B; it refuses B, so nobody can tell it of the owner's word but a code."""
    a, b, c = [await home.device(name) for name in "abc"]
    await pair(a, b)
    await pair(a, c)
    words = " ".join((await a.call(api.ShowWords())).words)
    await share(a, b, c)
    await a.call(api.RevokeDevice(device_id=id_of(b)))
    await tell(a, b, c)
    await b.call(api.RestoreOwner(words=words))
    assert (await states(b))[id_of(a)] == "revoked"
    assert (await states(c))[id_of(b)] == "revoked"
    await pair(c, b)
    expected = {id_of(a): "revoked", id_of(b): "member", id_of(c): "member"}
    assert await states(b) == await states(c) == expected
    assert (await space_of(b)).vault_key == (await space_of(c)).vault_key != (await space_of(a)).vault_key


async def test_the_words_revoke_also_from_a_device_that_is_out(home: Home) -> None:
    a, b, c = [await home.device(name) for name in "abc"]
    await pair(a, b)
    await pair(a, c)
    words = " ".join((await a.call(api.ShowWords())).words)
    await b.call(api.RevokeDevice(device_id=id_of(a)))
    await tell(b, a)
    other = " ".join(words_of(bytes(32)))
    command = api.RevokeDevice(device_id=id_of(b), words=other)
    assert await refused(a.call(command)) is ErrorCode.OTHER_SPACE
    await a.call(api.RevokeDevice(device_id=id_of(b), words=words))
    await share(a, b, c)
    assert (await states(c))[id_of(b)] == "revoked"


async def test_what_cannot_be_revoked_is_told(home: Home) -> None:
    a, b = await home.device("a"), await home.device("b")
    await pair(a, b)
    assert await refused(a.call(api.RevokeDevice(device_id=id_of(a)))) is ErrorCode.NOT_DONE
    assert await refused(a.call(api.RevokeDevice(device_id="abc"))) is ErrorCode.NO_SUCH_ID
    await a.call(api.RevokeDevice(device_id=id_of(b)))
    assert await refused(a.call(api.RevokeDevice(device_id=id_of(b)))) is ErrorCode.ALREADY_DONE


async def test_a_rotation_that_was_cut_short_is_finished_at_the_next_start(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = await home.device("b")
    async with home.running("a") as a:
        await pair(a, b)
        old = (await space_of(a)).vault_key
        with monkeypatch.context() as patch:
            patch.setattr("app.engine.devices.grant_key", _die)
            with pytest.raises(KeyError):
                await a.call(api.RevokeDevice(device_id=id_of(b)))
        assert (await space_of(a)).vault_key == old
    async with home.running("a") as a:
        assert (await space_of(a)).vault_key != old


def _die(*_arguments: object) -> list[object]:
    raise KeyError


async def test_statements_of_strangers_are_not_taken(home: Home) -> None:
    a, b = await home.device("a"), await home.device("b")
    assert await refused(tell(b, a)) is ErrorCode.OTHER_SPACE
    assert len(await states(a)) == 1
