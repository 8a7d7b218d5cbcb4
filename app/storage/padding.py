"""Padmé: sizes rounded up so that a size tells little, at a cost of at most 12 %.

A length is rounded up to a number whose mantissa has as few bits as its exponent; lengths below 2 stay as they are
(Nikitin et al., "Reducing Metadata Leakage from Encrypted Files and Communication with PURBs", 2019).
"""

from __future__ import annotations


def padded_length(length: int) -> int:
    """Return the Padmé size, in bytes, of a content of ``length`` bytes; padding twice changes nothing."""
    if length < 2:
        return length
    exponent = length.bit_length() - 1
    free_bits = exponent - exponent.bit_length()
    mask = (1 << free_bits) - 1
    return (length + mask) & ~mask
