"""The application without a face: commands in, snapshots and events out.

::

    faces      window          command line        another process
                  └───────────────┬────────────────────┘ (wire: server, remote)
    api        EngineApi.call(command) · events()
                  │
    local      LocalEngine: handlers, events, housekeeping
                  ├── worker ─► performing ─► app.transcode.supervisor ─► media children
                  │      └ choose, claim, beat, complete, end             │ segments
                  ├── films ◄──────────── vault, notes of made segments ◄─┘
                  │      └ wanted: what players wait for goes first; preview: sound far ahead
                  └── gateway (app.playback) ─► players
    kernel     the queue's thread · storage threads · the change flag

A data directory has one engine, whoever holds its lock (``lock``, ``host``)::

    none ──open──► hosting ──close──► none
      └──────────► guest of a running engine ──it ends──► hosting (lasting clients) | engine-gone

Invariants; tests bear their names:

* ``add`` must answer only after the job is durable;
* a task's result is written once: bundle sealed, outcome committed, notes dropped, in this order;
* what a paused job runs must be frozen when the command returns; a cancelled job's processes must be gone and its
  space given back within seconds;
* an error of the machine (disk full, read-only, locked) must cost no attempt: work rests and goes on by itself;
* the event loop must never wait for a disk.
"""
