"""Hearthreel: a private screening room on the machines you already own.

Imports point down: ``main → cli, ui → engine → sync | transcode | playback → queue | storage → media → core``.
"""

__version__ = "0.1.0"
