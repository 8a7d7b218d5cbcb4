"""The composition root: which face the program shows."""

from __future__ import annotations

import sys

from app.core.allocator import keep_large_blocks

_INTERRUPTED = 130


def main() -> None:
    """Run the program; the entry point of the installed script and of the packaged executable."""
    try:
        _run()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def _run() -> None:
    if "--media-child" in sys.argv[1:2]:
        from app.transcode.child import main as run_child  # noqa: PLC0415 (PyAV belongs in the child only)

        sys.exit(run_child())
    keep_large_blocks()
    from app.cli import Context, cli  # noqa: PLC0415 (a media child needs nothing of it)
    from app.window import show_window  # noqa: PLC0415

    context = Context()
    context.show_window = show_window
    cli(obj=context)
