"""An owner and devices with fixed keys, who state things knowing only what they know."""

from __future__ import annotations

from app.storage.signing import DeviceKeys, Signer, owner_signer
from app.sync.statements import Body, Statement, chain_end, make_statement

OWNER_SECRET = bytes(range(100, 132))
OWNER = owner_signer(OWNER_SECRET)
SPACE = OWNER.public.hex()
NAMES = "ABCDEFGH"
DEVICES = {name: DeviceKeys(bytes([number]) * 32) for number, name in enumerate(NAMES, start=1)}
IDS = {name: keys.id for name, keys in DEVICES.items()}
AT_MS = 1_700_000_000_000


def key_of(name: str) -> str:
    """Return a device's public key in hex."""
    return DEVICES[name].public.hex()


def signer_of(name: str) -> Signer:
    """Return who signs: a device by its letter, or "owner"."""
    return OWNER if name == "owner" else DEVICES[name]


def state(known: list[Statement], who: str, body: Body) -> Statement:
    """Return a statement by somebody who knows ``known``, at the end of the chain that is known."""
    signer = signer_of(who)
    return make_statement(signer, body, space=SPACE, after=chain_end(known, signer.public.hex()))
