"""Which files of a folder are worth adding."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

VIDEO_ENDINGS = (  # noqa: SIM905 (forty quoted words read worse)
    ".mp4 .m4v .mov .qt .mkv .webm .avi .divx .mpg .mpeg .mpe .m1v .m2v .vob .ts .m2ts .mts .m2t .trp .flv .f4v .wmv "
    ".asf .ogv .ogm .ogg .3gp .3g2 .mxf .dv .rm .rmvb .wtv .nut .ivf .gif .y4m .h264 .264 .hevc .265 .amv"
).split()
"""A folder holds much beside films; only these are tried. A file that is named itself is always tried."""

_ENDINGS = tuple(ending.encode() for ending in VIDEO_ENDINGS)


def expand_paths(paths: Sequence[bytes]) -> Iterable[bytes]:
    """Yield absolute paths: files as they are, folders walked, hidden files left out, in the order of names."""
    for path in paths:
        absolute = os.path.abspath(path)  # noqa: PTH100 (bytes paths, and links must stay)
        if os.path.isdir(absolute):  # noqa: PTH112
            yield from _walk(absolute)
        else:
            yield absolute


def _walk(folder: bytes) -> Iterator[bytes]:
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(b"."))
        for name in sorted(files):
            if not name.startswith(b".") and name.lower().endswith(_ENDINGS):
                yield os.path.join(parent, name)  # noqa: PTH118
