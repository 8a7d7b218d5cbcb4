"""Shards, manifests, keys and the vault."""
