"""Playing streams through to their ends without showing them: the check that a player would get what was made."""

from __future__ import annotations

import threading
from typing import Any

from av.error import FFmpegError

from app.transcode.join import open_pipe
from app.transcode.messages import PlayThrough, StreamFacts


def play_through(request: PlayThrough) -> tuple[StreamFacts, ...]:
    """Decode all inputs at once and return what was in each, in order."""
    found: dict[int, StreamFacts] = {}

    def run(fd: int) -> None:
        found[fd] = _play(fd)

    threads = [threading.Thread(target=run, args=(fd,)) for fd in request.inputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    nothing = StreamFacts(frames=0, first_s=0.0, end_s=0.0, errors=1, detail="nothing")
    return tuple(found.get(fd, nothing) for fd in request.inputs)


def _play(fd: int) -> StreamFacts:
    frames = errors = 0
    first: float | None = None
    end = 0.0
    detail = ""
    with open_pipe(fd) as container:
        stream: Any = container.streams[0]
        for packet in container.demux(stream):
            try:
                decoded = packet.decode()
            except FFmpegError:
                errors += 1
                continue
            for frame in decoded:
                time = float(frame.pts * frame.time_base)
                first = time if first is None else first
                length = frame.samples / frame.sample_rate if stream.type == "audio" else 0.0
                end = max(end, time + (length or float((frame.duration or 0) * frame.time_base)))
                frames += 1
        context = stream.codec_context
        detail = (
            f"{context.width}x{context.height}"
            if stream.type == "video"
            else f"{context.sample_rate} Hz, {context.layout.nb_channels} channels"
        )
    return StreamFacts(frames=frames, first_s=first or 0.0, end_s=end, errors=errors, detail=detail)
