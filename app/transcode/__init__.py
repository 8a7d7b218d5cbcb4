"""From a source file to checked CMAF segments: the media child, and the supervisor that runs it.

A request goes to a fresh child process, which may do anything a codec can do to a process, and ends::

    supervisor (engine's process)                      child (python -m app.transcode.child)
    ─────────────────────────────                      ──────────────────────────────────────
    open the source, start the child ── request ──────► confine ─► open by descriptor ─► work
    seal and note what comes    ◄── Progressed, InitMade, SegmentMade, StillMade ──┤
    return, or raise ChildError ◄── Done | Failed ─────────────────────────────────┘

A video chunk inside the child::

    packets ─► decoder ─► deinterlacer ─► pacer ─► per rendition: filter ─► x264 ─► assembler ─► check ─► SegmentMade
                                            └ holds borders, thins, repeats

Invariants; tests bear their names:

* a border is a contract: a segment must start at its planned tick with an IDR, or the chunk fails;
* decode times must rise, start at the border, and never pass the presentation time;
* what a child reports as made must have been read back by FFmpeg first, its times, counts and first pictures;
* a source is opened by descriptor, by allow-listed demuxers, without any protocol that could reach another file;
* when the supervisor returns, the child must be gone.

Modules: ``sniff`` and ``opening`` (the door to a source), ``probe``, ``index``, ``joined`` (restarted clocks),
``decoders``, ``decode``, ``telecine`` (film in fields), ``pacing``, ``picture``, ``encode``, ``passthrough``,
``video``, ``audio``, ``raw_text``, ``charset``, ``markup`` and ``text`` (subtitles), ``stills``, ``join`` (export),
``check``, ``cmaf`` and ``nal`` (pure bytes), ``messages`` and ``reporting`` (the pipe), ``child``, ``sandbox``,
``supervisor``, ``register``.

A text track's way: ``index`` keeps what all text packets of its one pass hold (``TextFound``, sealed by the engine), a
child of its own looks at each file beside the film (``ReadSidecar``), and ``text`` makes WebVTT of either without the
source (``MakeText``): no task reads 30 GB for 100 KB of text, and a bent subtitle file ends no work but its own.

Rejected: FFmpeg's own muxer for fragments (a negative first decode time with B-frames, a lost last duration with
variable frame rate); one long-lived worker process (a leak or a poisoned codec state would outlive its chunk); work
files on disk (plaintext must not touch it).
"""
