"""The vault of one device: encrypted shards, the manifests that name them, keys, collection and scrubbing.

The hierarchy of keys (FORMAT.md has the bytes)::

    owner secret (256 bit, on no device once its words are confirmed)
     ├── signing pair
     └── sealing pair ──seals──► vault key (random, kept on each device, also sealed to the owner)
                                   ├── deduplication key ─┐
                                   └── seal key ──────────┤ + plaintext
                                                          ▼
                             secret of one shard ──► AEAD key, nonce ──► sealed bytes ──► name = BLAKE2b-256

The way of bytes::

    content ─pad?─cut at 4 MiB─► seal ─► put (temporary name, fsync, rename, fsync folder) ─► DATA/vault/ab/abcd…
                                  │
                                  └─► (name, secret, length) ─► manifest ─seal, put─► … ─► capability, a string
    capability ─► manifest shards ─► get ─verify name─► open ─► bytes of any range

A capability is all that is needed to read a file, and all that a row carries. Reading needs no vault key; a vault key
is only needed to write. A store is a small seam (``ShardStore``) with a real and a memory implementation; verifying
and the disk floor are wrappers around it.

What happens to one shard::

    (absent) ──put──► whole ──reached by a live root──► kept
                        │  └──reached by none for the grace period──► deleted by the collector
                        └──read and found bad──► quarantined ──put again──► whole

Invariants:

* S1 the plaintext of media must never be on disk, scratch included, other than in exports the user asked for;
* S2 what is read must be verified; a bad shard is quarantined and the caller told;
* S3 the user's source must never be changed, moved or deleted;
* S4 what is superseded should be released only when the result that replaces it is verified;
* S5 collection must remove only what no live root reaches, after a grace period that every write or deduplicated hit
  restarts in the collector's own transaction;
* S6 a full disk must stop work with a clear message and lose nothing.

Threads: everything here is synchronous and may be called from several threads at once. The tables live behind one
lock (``SharedDatabase``) on a database connection that the vault shares with nobody.
"""
