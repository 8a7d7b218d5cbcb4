"""Playback: playlists, adaptation, and the loopback gateway that turns a film into plain HLS for players.

::

    FilmLayout ──playlists──► text                     (pure: the whole film is listed from the start)
    measured rate, what is made ──adaptation──► name   (pure: for the *auto* playlist)
    player ──HTTP──► Gateway ──FilmSource──► engine    (the only I/O here)

Life of a request for a piece (an init section or a segment)::

    request ──► made? ──yes──► answered with its length; ranges work
                  │no
                  ├─ job paused ──────────► 503 at once
                  ├─ a seek left it behind ► 503 at once
                  └─► headers, then a free box a second ──made──► the piece, end
                                   │
                                   └─ seek, pause, failure, a browser's limit ──► closed without an end

Invariants, each with a test of that name:

* only loopback hosts are answered;
* nothing is served without a token;
* pieces of another plan are never served;
* a wait ends with the piece or without an end;
* a seek closes the waits it leaves behind;
* the gateway closes within a second;
* every playlist lists the whole film;
* a rendition above the measured rate is never chosen while a lower one exists.

What was rejected: answering 404 until a segment exists (FFmpeg then skips it, hls.js gives up for good); holding the
answer back until the segment exists (hls.js gives up after 10 s without a byte of the body); listing only what exists
(an EVENT playlist: no seek ahead, and the film's length unknown).
"""
