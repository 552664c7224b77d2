"""Whatever a quantity looks like, its canonical form means the same and is a fixed point.

But for one kind: a binary amount that 1024 does not divide is stored without a suffix, as Kubernetes does it, and
whoever reads that again takes it for decimal.
"""

from __future__ import annotations

from fractions import Fraction

from hypothesis import example, given
from hypothesis import strategies as st

from echelon.base import quantity
from tests.properties.reached import Reached, reaches

_SUFFIXES = {
    "": Fraction(1),
    "m": Fraction(1, 1000),
    "u": Fraction(1, 10**6),
    "k": Fraction(1000),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "e3": Fraction(1000),
    "e-2": Fraction(1, 100),
}


@reaches(decimal=20, binary=10)
@given(whole=st.integers(0, 10**7), thousandths=st.integers(0, 999), suffix=st.sampled_from(sorted(_SUFFIXES)))
@example(whole=1830919, thousandths=857, suffix="Gi")
def test_canonical_form_keeps_the_amount_and_is_stable(
    reached: Reached, whole: int, thousandths: int, suffix: str
) -> None:
    text = f"{whole}.{thousandths:03}{suffix}"
    exact = (whole + Fraction(thousandths, 1000)) * _SUFFIXES[suffix]
    stored = quantity.canonical(text)
    again = quantity.canonical(stored)
    assert again == stored or ("i" in suffix and stored.isdigit())
    assert quantity.canonical(again) == again
    assert quantity.parse(again) == quantity.parse(stored)
    assert quantity.parse(text) == -(-exact.numerator // exact.denominator)
    assert quantity.parse(stored) == quantity.parse(text)
    reached("binary" if "i" in suffix else "decimal")
    if "i" not in suffix:
        assert quantity.parse(stored, "cpu") == quantity.parse(text, "cpu")
