"""How a small film is broken: pure functions of its bytes and a random generator, so that a seed says it all."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

HEAD_BYTES = 4096
_EXTREMES = (0, 1, 2, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)
_BOXES = tuple(
    b"ftyp moov mvhd trak tkhd edts elst mdia mdhd hdlr minf dinf dref stbl stsd stts ctts stsz stsc stco co64 stss "
    b"avcC hvcC esds mvex trex moof mfhd traf tfhd tfdt trun mdat udta meta colr pasp dvcC "
    b"RIFF avih strh strf movi idx1 00dc 01wb acTL fcTL fdAT IHDR".split()
)
_EBML = tuple(
    bytes.fromhex(one)
    for one in (
        *("1A45DFA3", "18538067", "1549A966", "2AD7B1", "4489", "1654AE6B", "AE", "D7", "83", "86", "63A2", "E0", "B0"),
        *("BA", "E1", "9F", "B5", "1F43B675", "E7", "A3", "A0", "A1", "9B", "1C53BB6B", "1254C367", "1043A770"),
    )
)
"""Element ids of Matroska: header, segment, tracks, sizes, clusters, blocks, cues, tags, chapters."""

Mutation = Callable[[bytearray, random.Random, Sequence[bytes]], None]


def mutate(data: bytes, dice: random.Random, donors: Sequence[bytes]) -> tuple[str, bytes]:
    """Return (what was done, the broken film): one to four mutations, one after the other."""
    broken = bytearray(data)
    done = []
    for _ in range(dice.choice((1, 1, 1, 2, 2, 3, 4))):
        if not broken:
            break
        name = dice.choice(list(MUTATIONS))
        MUTATIONS[name](broken, dice, donors)
        done.append(name)
    return "+".join(done), bytes(broken)


def _place(data: bytearray, dice: random.Random) -> int:
    """Return a position; headers, where the numbers are, twice as often as their size deserves."""
    reach = min(len(data), HEAD_BYTES) if dice.random() < 0.4 else len(data)
    if dice.random() < 0.15:  # an index at the end
        return max(0, len(data) - 1 - dice.randrange(min(len(data), HEAD_BYTES)))
    return dice.randrange(max(1, reach))


def _range(data: bytearray, dice: random.Random) -> tuple[int, int]:
    start = _place(data, dice)
    return start, min(len(data), start + 1 + int(dice.random() ** 3 * len(data)))


def flip_bits(data: bytearray, dice: random.Random, _: Sequence[bytes]) -> None:
    """Turn over 1 to 32 bits."""
    for _turn in range(dice.choice((1, 2, 4, 32))):
        data[_place(data, dice)] ^= 1 << dice.randrange(8)


def write_noise(data: bytearray, dice: random.Random, _: Sequence[bytes]) -> None:
    """Overwrite up to 64 bytes with noise."""
    start = _place(data, dice)
    noise = dice.randbytes(min(len(data) - start, dice.randint(1, 64)))
    data[start : start + len(noise)] = noise


def cut_end(data: bytearray, dice: random.Random, _: Sequence[bytes]) -> None:
    """Keep only the beginning."""
    del data[_place(data, dice) :]


def cut_out(data: bytearray, dice: random.Random, _: Sequence[bytes]) -> None:
    """Remove a range, so that all positions after it are wrong."""
    start, end = _range(data, dice)
    del data[start:end]


def repeat(data: bytearray, dice: random.Random, _: Sequence[bytes]) -> None:
    """Write a range twice."""
    start, end = _range(data, dice)
    data[start:start] = data[start:end]


def blank(data: bytearray, dice: random.Random, _: Sequence[bytes]) -> None:
    """Fill a range with zeros or ones, like a bad sector."""
    start, end = _range(data, dice)
    data[start:end] = bytes([dice.choice((0, 0xFF))]) * (end - start)


def splice(data: bytearray, dice: random.Random, donors: Sequence[bytes]) -> None:
    """Put a piece of another film over or into this one, or go on with the other."""
    other = dice.choice(donors)
    start = _place(data, dice)
    begin = dice.randrange(max(1, len(other)))
    piece = other[begin : begin + dice.choice((16, 256, 4096, len(other)))]
    end = start if dice.random() < 0.5 else min(len(data), start + len(piece))
    data[start:end] = piece


def write_extreme(data: bytearray, dice: random.Random, _: Sequence[bytes]) -> None:
    """Put a number at the edge of its type into 1, 2, 4 or 8 bytes."""
    width = dice.choice((1, 2, 4, 4, 4, 8))
    start = _place(data, dice)
    value = dice.choice(_EXTREMES) & (1 << 8 * width) - 1
    data[start : start + width] = value.to_bytes(width, dice.choice(("big", "little")))


def change_box(data: bytearray, dice: random.Random, _: Sequence[bytes]) -> None:
    """Change the size, the type or an early field of a box or chunk that MP4, AVI or PNG know by four letters."""
    found = [place for name in _BOXES if (place := data.find(name)) >= 4]
    if not found:
        write_extreme(data, dice, ())
        return
    place = dice.choice(found)
    what = dice.random()
    if what < 0.4:
        size = int.from_bytes(data[place - 4 : place], "big") + dice.choice((-8, -1, 1, 4, 8, 1 << 16, 1 << 30))
        value = size if dice.random() < 0.6 else dice.choice(_EXTREMES)
        data[place - 4 : place] = (value & 0xFFFFFFFF).to_bytes(4, "big")
    elif what < 0.5:
        data[place : place + 4] = dice.choice(_BOXES)
    else:
        field = place + 4 + 4 * dice.randrange(12)
        data[field : field + 4] = (dice.choice(_EXTREMES) & 0xFFFFFFFF).to_bytes(4, "big")


def change_element(data: bytearray, dice: random.Random, _: Sequence[bytes]) -> None:
    """Change the length that follows an element id of Matroska, or its first bytes."""
    found = [place + len(name) for name in _EBML if (place := data.find(name)) >= 0]
    if not found:
        write_extreme(data, dice, ())
        return
    place = dice.choice(found) + (0 if dice.random() < 0.6 else 1 + dice.randrange(8))
    length = dice.choice((1, 1, 2, 4, 8))
    data[place : place + length] = dice.randbytes(length) if dice.random() < 0.5 else b"\xff" * length


def swap_blocks(data: bytearray, dice: random.Random, _: Sequence[bytes]) -> None:
    """Exchange two blocks of 188 or 512 bytes: packets of a broadcast, sectors of a disk."""
    size = dice.choice((188, 512))
    blocks = len(data) // size
    if blocks < 2:
        return
    first, second = sorted(dice.sample(range(blocks), 2))
    a, b = slice(first * size, first * size + size), slice(second * size, second * size + size)
    data[a], data[b] = data[b], data[a]


MUTATIONS: dict[str, Mutation] = {
    "flip": flip_bits,
    "noise": write_noise,
    "cut": cut_end,
    "out": cut_out,
    "repeat": repeat,
    "blank": blank,
    "splice": splice,
    "extreme": write_extreme,
    "box": change_box,
    "element": change_element,
    "swap": swap_blocks,
}
