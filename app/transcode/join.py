"""Export: fragmented streams of one film, read from pipes, remuxed into one plain MP4 that any player opens."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator
from typing import Any

import av

from app.transcode.messages import JoinFilm
from app.transcode.reporting import Reporter


def join_film(request: JoinFilm, reporter: Reporter) -> int:
    """Write the film to ``output_fd`` and return its size in bytes."""
    inputs = [open_pipe(fd) for fd in request.inputs]
    with os.fdopen(os.dup(request.output_fd), "wb") as file:
        with av.open(file, "w", format="mp4", options={"movflags": "use_metadata_tags"}) as output:
            _remux(inputs, output, request, reporter)
        file.flush()
        os.fsync(file.fileno())
        size = os.fstat(file.fileno()).st_size
    for one in inputs:
        one.close()
    return size


def open_pipe(fd: int) -> Any:
    """Open a fragmented MP4 stream that arrives on a descriptor."""
    return av.open(
        "fd:", "r", format="mov", options={"fd": str(fd), "protocol_whitelist": "fd", "format_whitelist": "mov"}
    )


def _remux(inputs: list[Any], output: Any, request: JoinFilm, reporter: Reporter) -> None:
    outs = []
    for number, one in enumerate(inputs):
        out = output.add_stream_from_template(one.streams[0])
        if number:
            out.metadata["title"] = request.labels[number]
            if request.languages[number]:
                out.metadata["language"] = request.languages[number]
        outs.append(out)
    output.start_encoding()
    for number, packet in heapq.merge(*(_packets(n, one) for n, one in enumerate(inputs)), key=_decode_second):
        ticks = int(packet.dts * packet.time_base * 90_000)
        packet.stream = outs[number]
        output.mux(packet)
        reporter.progress(min(1000, ticks * 1000 // max(1, request.duration_ticks)), ticks)


def _packets(number: int, container: Any) -> Iterator[tuple[int, Any]]:
    for packet in container.demux(container.streams[0]):
        if packet.size:
            yield number, packet


def _decode_second(entry: tuple[int, Any]) -> Any:
    return entry[1].dts * entry[1].time_base
