"""Picture filters: from a decoded picture to what an encoder of one rendition takes.

Output is always 8-bit 4:2:0, limited range, BT.709, square pixels, upright. Filters see pictures one by one and keep
their number (deinterlacing, which does not, runs before pacing; see ``SourceFilter``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from av.error import BlockingIOError as TryAgainError
from av.error import EOFError as EndOfStreamError
from av.filter import Graph

from app.media.plan import Plan, Rendition
from app.media.source import TICKS_PER_S
from app.transcode.decode import Picture

_TURNS = {
    "flip": ("hflip", ""),
    "turn-90": ("transpose", "clock"),
    "turn-180": ("rotate180", ""),
    "turn-270": ("transpose", "cclock"),
}
_MATRICES = {0: "gbr", 1: "bt709", 4: "fcc", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 9: "bt2020", 10: "bt2020"}
_HD_HEIGHT = 720
_SAME_SHAPE = 0.02
TICKS = Fraction(1, TICKS_PER_S)

Step = tuple[str, str]


def upright_steps(filters: Sequence[str]) -> list[Step]:
    """Return the FFmpeg filters that turn the picture upright."""
    steps: list[Step] = []
    for name in filters:
        if name == "turn-180":
            steps += [("hflip", ""), ("vflip", "")]
        elif name in _TURNS:
            steps.append(_TURNS[name])
    return steps


def _input_matrix(frame: Any) -> str:
    """Return the colour matrix of a picture; where it does not say, HD is BT.709 and the rest BT.601."""
    named = _MATRICES.get(int(frame.colorspace))
    if named and named != "gbr":
        return named
    return "bt709" if frame.height >= _HD_HEIGHT else "smpte170m"


def scale_step(frame: Any, width: int, height: int, *, turned: bool) -> Step:
    """Return the step that brings ``frame`` to a size and to BT.709 limited range."""
    if turned:
        width, height = height, width
    source_range = "pc" if int(frame.color_range) == 2 or frame.format.name.startswith("yuvj") else "tv"
    options = [f"w={width}", f"h={height}", "out_color_matrix=bt709", "out_range=tv"]
    if not frame.format.is_rgb:
        options += [f"in_color_matrix={_input_matrix(frame)}", f"in_range={source_range}"]
    return "scale", ":".join(options)


class FilterChain:
    """A linear chain of FFmpeg filters for pictures (or sound) of one shape."""

    def __init__(self, graph: Graph, source: Any, steps: Sequence[Step], *, sink: str) -> None:
        previous = source
        for name, arguments in steps:
            following = graph.add(name, arguments)
            previous.link_to(following)
            previous = following
        previous.link_to(graph.add(sink))
        graph.configure()
        self._graph = graph

    @classmethod
    def for_pictures(cls, frame: Any, steps: Sequence[Step]) -> FilterChain:
        """Return a chain for pictures like ``frame``, whose times are film ticks."""
        graph = Graph()
        source = graph.add_buffer(width=frame.width, height=frame.height, format=frame.format.name, time_base=TICKS)
        return cls(graph, source, steps, sink="buffersink")

    @classmethod
    def for_transparent_pictures(cls, frame: Any, steps: Sequence[Step], backdrop: str) -> FilterChain:
        """Return a chain for pictures like ``frame`` that are laid over ``backdrop`` (white or black) first."""
        graph = Graph()
        source = graph.add_buffer(width=frame.width, height=frame.height, format=frame.format.name, time_base=TICKS)
        plain = graph.add("format", "gbrap" if frame.format.is_rgb else "yuva444p")
        split = graph.add("split", "2")
        level = "maxval" if backdrop == "white" else "minval"
        if frame.format.is_rgb:
            back = graph.add("lutrgb", f"r={level}:g={level}:b={level}:a=maxval")
            over = graph.add("overlay", "format=gbrp")
        else:
            back = graph.add("lutyuv", f"y={level}:u=128:v=128:a=255")
            over = graph.add("overlay", "format=yuv444")
        source.link_to(plain)
        plain.link_to(split)
        split.link_to(back, 0)
        back.link_to(over, 0, 0)
        split.link_to(over, 1, 1)
        return cls(graph, over, steps, sink="buffersink")

    @classmethod
    def for_sound(cls, frame: Any, steps: Sequence[Step]) -> FilterChain:
        """Return a chain for sound like ``frame``, whose times count samples."""
        graph = Graph()
        source = graph.add_abuffer(
            sample_rate=frame.sample_rate,
            format=frame.format.name,
            layout=frame.layout.name,
            time_base=Fraction(1, frame.sample_rate),
        )
        return cls(graph, source, steps, sink="abuffersink")

    def push(self, frame: Any) -> None:
        """Put one picture in; None ends the stream."""
        self._graph.push(frame)

    def pull(self) -> Iterator[Any]:
        """Yield what has come out."""
        while True:
            try:
                yield self._graph.pull()
            except (TryAgainError, EndOfStreamError):
                return


def build_chain(frame: Any, steps: Sequence[Step], filters: Sequence[str]) -> FilterChain:
    """Return a chain of ``steps``, after a backdrop for transparent pictures.

    For HDR, the first step (which scales) is followed by the table that makes it SDR.
    """
    backdrop = next((name.removeprefix("over-") for name in filters if name.startswith("over-")), None)
    if backdrop is not None and has_alpha(frame):
        return FilterChain.for_transparent_pictures(frame, steps, backdrop)
    tone = next((name.removeprefix("tonemap-") for name in filters if name.startswith("tonemap-")), None)
    if tone is None:
        return FilterChain.for_pictures(frame, steps)
    from app.transcode.tone import cube_file  # noqa: PLC0415 (numpy doubles the start time of a child)

    width_and_height = [part for part in steps[0][1].split(":") if part.startswith(("w=", "h="))]
    with cube_file(tone) as path:
        return FilterChain.for_pictures(
            frame,
            [
                ("scale", ":".join([*width_and_height, "in_color_matrix=bt2020", "in_range=tv"])),
                ("format", "gbrp10le"),
                ("lut3d", f"file={path}:interp=tetrahedral"),
                ("scale", "out_color_matrix=bt709:out_range=tv"),
                *steps[1:],
            ],
        )


def has_alpha(frame: Any) -> bool:
    """Whether a picture has transparent parts."""
    return any(component.is_alpha for component in frame.format.components)


class RenditionFilter:
    """Brings pictures to one rendition; rebuilt when the source's size or format changes on the way."""

    def __init__(self, plan: Plan, rendition: Rendition, *, is_scaled: bool = False) -> None:
        """``is_scaled`` says that pictures come from a larger rendition's filter: upright, in final colours."""
        self._is_scaled = is_scaled
        self._filters = () if is_scaled else plan.filters
        self._size = rendition.width, rendition.height
        self._shape: tuple[Any, ...] | None = None
        self._chain: FilterChain | None = None

    def apply(self, frame: Any, aspect: float = 1.0) -> Any:
        """Return the picture for the encoder; a new frame, whose time the caller sets.

        ``aspect`` is the width of a pixel by its height. A picture of another shape than the rendition's (the source
        changed on the way) is shown whole, between black bars.
        """
        shape = (frame.width, frame.height, frame.format.name, int(frame.colorspace), int(frame.color_range), aspect)
        if self._chain is None or shape != self._shape:
            self._shape = shape
            self._chain = build_chain(frame, self._steps(frame, aspect), self._filters)
        self._chain.push(frame)
        return next(self._chain.pull())

    def _steps(self, frame: Any, aspect: float) -> list[Step]:
        upright = upright_steps(self._filters)
        turned = any(name == "transpose" for name, _ in upright)
        shown = frame.width * aspect / frame.height
        width, height = self._size if self._is_scaled else fitted_size(1 / shown if turned else shown, self._size)
        steps: list[Step] = []
        if self._filters or not _is_final(frame, width, height):
            steps.append(scale_step(frame, width, height, turned=turned))
        steps += [("format", "yuv420p"), *upright]
        if (width, height) != self._size:
            steps.append(("pad", f"{self._size[0]}:{self._size[1]}:(ow-iw)/2:(oh-ih)/2"))
        return [*steps, ("setsar", "1")]


def fitted_size(shape: float, size: tuple[int, int]) -> tuple[int, int]:
    """Return the even (width, height) in which a picture of ``shape`` (width by height) is shown within ``size``.

    A difference that comes from rounding sizes to whole pixels is none.
    """
    width, height = size
    rounding = _SAME_SHAPE + 3 / min(width, height)
    if abs(shape * height / width - 1) <= rounding:
        return size
    if shape * height > width:
        return width, max(2, round(width / shape / 2) * 2)
    return max(2, round(height * shape / 2) * 2), height


def _is_final(frame: Any, width: int, height: int) -> bool:
    return (
        (frame.width, frame.height) == (width, height)
        and frame.format.name == "yuv420p"
        and _input_matrix(frame) == "bt709"
        and int(frame.color_range) != 2
    )


DEINTERLACE: Sequence[Step] = (("bwdif", "mode=send_field:parity=auto:deint=all"),)
"""Turns interlaced pictures into one progressive picture per field, with both fields' times."""


class SourceFilter:
    """Runs pictures through filters at the source's own size, begun anew where the shape of the pictures changes."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self._chain: FilterChain | None = None
        self._shape: tuple[Any, ...] = ()

    def run(self, pictures: Iterator[Picture]) -> Iterator[Picture]:
        """Yield what the filters give; deinterlacing needs one picture more on both sides of what is used."""
        for picture in pictures:
            frame = picture.frame
            shape = (frame.width, frame.height, frame.format.name, picture.aspect)
            if shape != self._shape:
                yield from self._pull(ends=True)
                self._shape = shape
                self._chain = FilterChain.for_pictures(frame, self._steps)
            frame.time_base, frame.pts = TICKS, picture.ticks
            if self._chain is not None:
                self._chain.push(frame)
            yield from self._pull(ends=False)
        yield from self._pull(ends=True)

    def _pull(self, *, ends: bool) -> Iterator[Picture]:
        if self._chain is None:
            return
        if ends:
            self._chain.push(None)
        for frame in self._chain.pull():
            yield Picture(frame, int(frame.pts * frame.time_base * TICKS_PER_S), self._shape[-1])
