"""The application without a face: commands in, snapshots and events out."""
