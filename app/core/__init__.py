"""What every other package stands on: ids, clocks, errors, paths, settings, logging and the SQLite door.

Nothing here knows what a video is.
"""
