"""Devices: identity, pairing, sessions and replication (to come with the second device)."""
