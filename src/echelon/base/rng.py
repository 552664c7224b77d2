"""Seeded random numbers: SplitMix64, the same stream for the same seed on every machine.

Uids and generated names are drawn from one of these, so that a run in virtual time repeats byte for byte.
"""

from __future__ import annotations

_MASK = (1 << 64) - 1
#: The alphabet Kubernetes uses for generated suffixes: no vowels, so no accidental words.
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


class Rng:
    """A stream of uniform 64-bit words."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def word(self) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def below(self, bound: int) -> int:
        """A uniform integer in [0, bound); the bias for bounds far below 2**64 is negligible."""
        return self.word() % bound

    def random_bytes(self, count: int) -> bytes:
        words = b"".join(self.word().to_bytes(8, "big") for _ in range(-(-count // 8)))
        return words[:count]

    def uid(self) -> str:
        """A version 4 UUID as text."""
        high, low = self.word(), self.word()
        high = (high & ~0xF000) | 0x4000
        low = (low & ~(0b11 << 62)) | (0b10 << 62)
        digits = f"{high:016x}{low:016x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def suffix(self, length: int = 5) -> str:
        """The random tail of a generated name."""
        return "".join(_SUFFIX_ALPHABET[self.below(len(_SUFFIX_ALPHABET))] for _ in range(length))
