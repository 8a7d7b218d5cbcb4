"""Pairing, devices and the words as a person or a script types them, with programs that know nothing of each other."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.core.errors import ErrorCode, ExpectedError
from app.storage.signing import DeviceKeys
from app.sync.addresses import Address
from app.sync.pairing import Asked, PairingOffer, Welcome, parse_code
from app.sync.pairing_link import PairingHost, join_at
from tests.cli.typed import LIMIT_S, ROOT, Said, command, run, start, typist

pytestmark = pytest.mark.slow
LOOPBACK = "127.0.0.1"
EVE = DeviceKeys(bytes([66]) * 32)


class Inviter:
    """A program that shows a code."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()
        self.shown: dict[str, Any] = json.loads(line)
        self.code: str = self.shown["code"]
        self.at: str = self.shown["addresses"][0]

    @property
    def wrong(self) -> str:
        return self.code[:-1] + str((int(self.code[-1]) + 1) % 10)

    def end(self) -> tuple[int, str, str]:
        """Return exit code, output and errors when the program has ended."""
        output, errors = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, output, errors


@contextmanager
def inviting(root: Path, *words: str) -> Iterator[Inviter]:
    process = start(root, "--json", "pair", "--listen", LOOPBACK, *words)
    try:
        yield Inviter(process)
    finally:
        process.kill()
        process.communicate()


def devices(root: Path) -> dict[str, str]:
    return {row["id"]: row["state"] for row in run(root, "--json", "devices").rows}


def vault_key(root: Path) -> dict[str, str]:
    return dict(json.loads((root / "keys" / "vault-key.json").read_bytes()))


def fed(root: Path, text: str, *words: str, code: int = 0) -> Said:
    """Run the program with ``text`` on its standard input."""
    done = subprocess.run(
        command(root, *words), cwd=ROOT, input=text.encode(), capture_output=True, timeout=LIMIT_S, check=False
    )
    said = Said(code=done.returncode, output=done.stdout.decode(), errors=done.stderr.decode())
    assert said.code == code, said
    return said


def test_two_programs_pair_with_a_code(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    with inviting(a) as inviter:
        joined = run(b, "--json", "pair", inviter.code, "--at", inviter.at).row
        code, output, errors = inviter.end()
    assert code == 0, errors
    paired = json.loads(output)
    assert joined["paired"]["devices"] == paired["paired"]["devices"] == 2
    assert "not confirmed yet" in errors
    assert devices(a) == devices(b) == {joined["paired"]["id"]: "member", paired["paired"]["id"]: "member"}
    assert vault_key(a) == vault_key(b)


def test_a_running_worker_pairs_for_whoever_asks_it(tmp_path: Path) -> None:
    """Both commands are guests of engines that run already."""
    a, b = tmp_path / "a", tmp_path / "b"
    workers = [start(root, "worker") for root in (a, b)]
    try:
        for worker in workers:
            assert worker.stderr is not None
            assert "Working" in worker.stderr.readline()
        with inviting(a) as inviter:
            run(b, "--json", "pair", inviter.shown["link"])
            assert inviter.end()[0] == 0
        assert devices(a) == devices(b)
        assert len(devices(a)) == 2
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    assert vault_key(a) == vault_key(b)


def test_three_wrong_codes_end_the_inviter_and_change_nothing(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    with inviting(a) as inviter:
        for _ in range(3):
            said = run(b, "--json", "pair", inviter.wrong, "--at", inviter.at, code=1)
            assert (said.output, said.errors.partition(":")[0]) == ("", "wrong-code")
        code, output, errors = inviter.end()
        assert (code, output) == (1, "")
        assert "wrong code" in errors
        assert "code-expired: 3 wrong codes" in errors
        said = run(b, "pair", inviter.code, "--at", inviter.at, code=1)
        assert said.errors.startswith("unreachable")
    assert len(devices(a)) == len(devices(b)) == 1
    assert vault_key(a) != vault_key(b)


def test_a_man_in_the_middle_learns_nothing_and_both_programs_say_so(tmp_path: Path) -> None:
    """It stands where the joiner connects, knows all but the code, and plays each to the other with a guess."""
    a, b = tmp_path / "a", tmp_path / "b"
    seen: list[object] = []

    async def let_in(asked: Asked) -> Welcome:
        seen.append(asked)
        raise ExpectedError(ErrorCode.CANCELLED, "It has what it wanted.")

    async def enter(welcome: Welcome, _host: str) -> None:
        seen.append(welcome)

    async def between(inviter: Inviter) -> tuple[int, str]:
        guess, _ = parse_code(inviter.wrong)
        host, port = inviter.at.split(":")
        middle = PairingHost(PairingOffer(guess, now_s=0.0), keys=EVE, let_in=let_in, now_s=lambda: 0.0)
        await middle.start(LOOPBACK)
        victim = await asyncio.create_subprocess_exec(
            *command(b, "--json", "pair", inviter.code, "--at", f"{LOOPBACK}:{middle.port}"),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        with pytest.raises(ExpectedError) as caught:
            await join_at(
                (Address(host=host, port=int(port)),), guess, keys=EVE, name="Eve", enter=enter, now_s=lambda: 0.0
            )
        assert caught.value.code is ErrorCode.WRONG_CODE
        _, errors = await victim.communicate()
        await middle.close()
        return victim.returncode or 0, errors.decode()

    with inviting(a) as inviter:
        code, errors = asyncio.run(between(inviter))
        assert code == 1
        assert errors.startswith("wrong-code: The code is wrong, or somebody between the two devices")
        assert inviter.process.stderr is not None
        assert "somebody between the two tried to listen; nothing was given away" in inviter.process.stderr.readline()
        run(b, "pair", inviter.code, "--at", inviter.at)  # the honest two can go on
        assert inviter.end()[0] == 0
    assert seen == []
    assert vault_key(a) == vault_key(b)
    assert EVE.id not in devices(a)


@pytest.mark.skipif(os.name == "nt", reason="signals are sent as on POSIX systems")
def test_an_interrupted_inviter_withdraws_its_code(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    with inviting(a) as inviter:
        inviter.process.send_signal(signal.SIGINT)
        assert inviter.end()[0] == 130
        assert run(b, "pair", inviter.code, "--at", inviter.at, code=1).errors.startswith("unreachable")


def test_revoke_shuts_out_and_says_what_is_still_there(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    with inviting(a) as inviter:
        run(b, "--json", "pair", inviter.code, "--at", inviter.at)
        other = json.loads(inviter.end()[1])["paired"]["id"]
    before = vault_key(a)
    said = run(a, "devices", "revoke", other[:8])
    assert "What it holds it keeps" in said.output
    assert vault_key(a) != before == vault_key(b)
    assert devices(a)[other] == "revoked"
    assert run(a, "devices", "revoke", other, code=1).errors.startswith("already-done")
    assert "revoked by" in run(a, "devices").output


def test_the_words_are_confirmed_and_restore_a_device(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    words = " ".join(run(a, "--json", "devices", "words").row["words"])
    assert len(words.split()) == 24
    shown = run(a, "devices", "words").output
    assert all(word in shown for word in words.split())
    bad = words.rpartition(" ")[0] + " zoo"
    assert fed(a, bad, "devices", "confirm", code=1).errors.startswith("bad-words: Word 24")
    assert fed(a, words, "--json", "devices", "confirm").row == {"confirmed": True}
    assert run(a, "devices", "words", code=1).errors.startswith("already-done")
    assert run(a, "--json", "devices").errors == ""
    restored = fed(b, words.upper(), "--json", "devices", "restore").row
    assert restored["restored"] is True
    owners = {json.loads((root / "keys" / "owner.json").read_bytes())["signing"] for root in (a, b)}
    assert owners == {restored["owner"]}
    assert not (b / "keys" / "owner-secret.json").exists()


def test_no_secret_lies_where_others_can_read_it(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    with inviting(a) as inviter:
        run(b, "--json", "pair", inviter.code, "--at", inviter.at)
        assert inviter.end()[0] == 0
    for root in (a, b):
        secret = next((root / "keys").glob("device-*.secret")).read_text().strip()
        for path in (one for one in root.rglob("*") if one.is_file()):
            if path.suffix != ".secret":
                content = path.read_bytes()
                assert secret.encode() not in content
                assert bytes.fromhex(secret) not in content
            if path.parent.name == "keys" and os.name != "nt":
                assert path.stat().st_mode & 0o077 == 0, path


def test_doctor_says_where_the_key_lies(tmp_path: Path) -> None:
    report = typist(tmp_path)("--json", "doctor").row
    assert report["device"] in devices(tmp_path)
    assert str(tmp_path) in report["secrets"]


def test_what_is_no_code_is_told(tmp_path: Path) -> None:
    assert typist(tmp_path)("pair", "12-34", code=1).errors.startswith("wrong-code")
    assert typist(tmp_path)("pair", "123-456-789", "--at", "nowhere", code=1).errors.startswith("bad-setting")
