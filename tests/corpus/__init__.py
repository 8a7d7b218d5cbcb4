"""Whole films against their sources, by other programs' eyes: ``make corpus DIR=…`` or ``python -m tests.corpus DIR``.

::

    file ─► engine (a library of its own) ─► refused or error: is it the code its kind asks for?
                     │ done
                     ▼
            playlists and segments over HTTP, as a player reads them ─► one plain file per rendition and track
                     │                                                     │ ffprobe, ffmpeg (the commands)
    file ──ffprobe, ffmpeg──► pictures and times, sound ──► compare ◄──────┘

Nothing of ``app.transcode`` reads here: what decodes is the system's ffmpeg, what compares is numpy.
"""
