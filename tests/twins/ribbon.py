"""Look a value up in a ribbon filter bit by bit, with Python's own whole numbers."""

import struct

MASK = 2**64 - 1


def mixed(word: int) -> int:
    """Return a word whose every bit depends on every bit: MurmurHash3's last steps."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        word = (word ^ word >> 33) * factor & MASK
    return word ^ word >> 33


def in_ribbon(data: bytes, hashed: int) -> bool:
    """Return whether all planes fulfil the equation of a hash."""
    magic, planes, seed, _, slots, rest = struct.unpack("<4sBBHII", data[:16])
    assert magic == b"RBN1"
    word = mixed((hashed + seed * 0xD6E8FEB86659FD93) & MASK)
    at = word * (slots - 127) >> 64
    near = mixed((word + 0x9E3779B97F4A7C15) & MASK) | 1
    chosen = near | mixed((word + 0xC2B2AE3D27D4EB4F) & MASK) << 64
    total = mixed((word + 0xA0761D6478BD642F) & MASK)
    start = 16
    for plane in range(planes + (1 if rest else 0)):
        there = slots if plane < planes else rest
        size = (there + 7) // 8
        bits = int.from_bytes(data[start : start + size], "little")
        if at + 128 <= there and (bits >> at & chosen).bit_count() % 2 != total >> plane & 1:
            return False
        start += size
    return True
