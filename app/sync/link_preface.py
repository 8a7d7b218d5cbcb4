"""Which of a link's two channels a direct channel is: the first message on each, from whoever connected.

A link is two channels: *control* (small, prompt) and *bulk* (shards). Where each is a connection of its own, the side
that connected draws an id and says it, with the role, as the first message on both.
"""

from __future__ import annotations

from typing import Final, Literal

from app.sync.channel import bad_message

LINK_ID_BYTES: Final = 16
_MAGIC: Final = b"HRL1"
_ROLES: Final = {"control": b"c", "bulk": b"b"}

Role = Literal["control", "bulk"]


def encode_preface(role: Role, link_id: bytes) -> bytes:
    """Return the first message of a channel."""
    return _MAGIC + _ROLES[role] + link_id


def decode_preface(message: bytes) -> tuple[Role, bytes]:
    """Return the role and the link's id; raises ``ChannelClosedError`` bad-message when it is no preface."""
    magic, role, link_id = message[:4], message[4:5], message[5:]
    if magic != _MAGIC or len(link_id) != LINK_ID_BYTES or role not in _ROLES.values():
        raise bad_message("it began without saying what the connection is for")
    return ("control" if role == _ROLES["control"] else "bulk"), link_id
