"""The media child: one process, one request, one end. Started as ``python -m app.transcode.child PARENT_PID``.

Whatever happens in a codec happens here. The child knows no keys, no database and no paths but its source; it reads
one request from standard input and writes reports to standard output until ``Done`` or ``Failed``.
"""

from __future__ import annotations

import os
import sys

from av.error import FFmpegError

from app.core.allocator import keep_large_blocks
from app.core.errors import ErrorCode, ExpectedError, mistake_of_ours
from app.transcode.audio import make_audio
from app.transcode.encoders import try_encoders
from app.transcode.index import index_source
from app.transcode.join import join_film
from app.transcode.messages import (
    Done,
    Failed,
    IndexSource,
    JoinFilm,
    MakeAudio,
    MakeSample,
    MakeStills,
    MakeText,
    MakeVideo,
    PlayThrough,
    ProbeSource,
    ReadSidecar,
    Request,
    TryEncoders,
    read_request,
)
from app.transcode.opening import open_source
from app.transcode.playthrough import play_through
from app.transcode.probe import probe_source
from app.transcode.reporting import PipeReporter
from app.transcode.sample import make_sample
from app.transcode.sandbox import confine, widen_pipe
from app.transcode.video import make_video

_TRANSIENT = {ErrorCode.DISK_FULL, ErrorCode.READ_ONLY, ErrorCode.OUT_OF_MEMORY, ErrorCode.UNREADABLE}


def carry_out(request: Request, reporter: PipeReporter) -> Done:  # noqa: C901, PLR0911 (one answer per kind)
    """Do what is asked and return the facts."""
    match request:
        case ProbeSource():
            with open_source(request.source) as opened:
                return Done(info=probe_source(opened))
        case IndexSource():
            info, plan = index_source(request, reporter)
            return Done(info=info, plan=plan)
        case MakeVideo():
            return Done(facts=make_video(request, reporter))
        case MakeAudio():
            return Done(facts=make_audio(request, reporter))
        case ReadSidecar() | MakeText():
            return _work_on_text(request, reporter)
        case MakeStills():
            from app.transcode.stills import make_stills  # noqa: PLC0415 (numpy doubles the start time of a child)

            return Done(stills=make_stills(request, reporter))
        case JoinFilm():
            return Done(size_bytes=join_film(request, reporter))
        case PlayThrough():
            return Done(streams=play_through(request))
        case MakeSample():
            return Done(size_bytes=make_sample(request))
        case TryEncoders():
            return Done(encoders=try_encoders())


def _work_on_text(request: ReadSidecar | MakeText, reporter: PipeReporter) -> Done:
    from app.transcode.text import make_text, read_sidecar  # noqa: PLC0415 (no other child needs the parsers)

    if isinstance(request, ReadSidecar):
        return Done(sidecar=read_sidecar(request))
    return Done(facts=make_text(request, reporter))


def _failure_of(error: Exception) -> Failed:
    if isinstance(error, ExpectedError):
        return Failed(code=error.code, message=error.message, permanent=error.code not in _TRANSIENT)
    if isinstance(error, MemoryError):
        return Failed(
            code=ErrorCode.OUT_OF_MEMORY, message="There was not enough memory for this film.", permanent=False
        )
    if isinstance(error, FFmpegError):
        message = f"FFmpeg could not go on: {error.strerror or error}."
        return Failed(code=ErrorCode.WORKER_CRASHED, message=message, permanent=False)
    ours = mistake_of_ours(error)
    return Failed(code=ours.code, message=ours.message, permanent=False)


def main() -> int:
    """Run one request; the exit code is 0 when the parent was told how it ended."""
    keep_large_blocks()
    confine(int(sys.argv[-1]) if sys.argv[-1].isdigit() else os.getppid())
    reports = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    widen_pipe(reports.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # stray prints of libraries must not end up among the reports
    request = read_request(sys.stdin.buffer)
    if request is None:
        return 0
    reporter = PipeReporter(reports)
    try:
        reporter.send(carry_out(request, reporter))
    except BrokenPipeError:
        return 1
    except Exception as error:  # noqa: BLE001 (the edge of the process: every failure becomes a report)
        if not isinstance(error, ExpectedError):
            sys.excepthook(type(error), error, error.__traceback__)
        reporter.send(_failure_of(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
