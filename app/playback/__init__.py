"""Playlists and the loopback gateway."""
