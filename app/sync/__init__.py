"""Devices: identity, pairing, finding each other, channels, sessions, replication.

::

    identity ── membership ── pairing          who belongs to the owner: IDENTITY.md
    discovery ── reconnecting                  finding and reaching a device in the same network
    rendezvous ── signalling ── meeting        and in another one
    channel: memory · direct · WebRTC          whole messages to a proven key
    session ── replication ── shard_exchange   what is said: PROTOCOL.md

Nearly everything here is an object without I/O; sockets are touched in ``direct``, ``direct_channel``, ``webrtc``,
``mdns``, ``rendezvous``, ``pairing_link`` and ``pairing_discovery`` alone.
"""
