"""Quantities: exact amounts and the canonical spelling a real server stores."""

from __future__ import annotations

import pytest

from echelon.base import quantity


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0.5", "500m"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1025Mi", "1025Mi"),
        ("0.5Ki", "512"),
        ("1Ki", "1Ki"),
        ("1000", "1k"),
        ("1024", "1024"),
        (2, "2"),
        (0.1, "100m"),
        ("0Gi", "0"),
        ("-1000m", "-1"),
        ("1e3", "1e3"),
        ("12e5", "1200e3"),
        ("1E", "1E"),
        ("1n", "1n"),
        ("0.1n", "1n"),
        (".5Gi", "512Mi"),
        ("+8", "8"),
        ("9223372036854775808", "9223372036854775807"),
        ("1e400", "9223372036854775807"),
        ("-1e400", "-9223372036854775807"),
        ("9" * 1000, "9223372036854775807"),
        ("1e-1000", "1e-9"),
        ("16Ei", "9223372036854775807"),
    ],
)
def test_canonical_form(given: str | int | float, stored: str) -> None:
    assert quantity.canonical(given) == stored


@pytest.mark.parametrize(
    ("given", "resource", "amount"),
    [
        ("1", "cpu", 1000),
        ("250m", "cpu", 250),
        ("0.0001", "cpu", 1),
        ("1Gi", "memory", 2**30),
        ("100m", "memory", 1),
        ("8", "nvidia.com/gpu", 8),
        ("-1500m", None, -1),
        (3, None, 3),
    ],
)
def test_amounts_are_exact_and_round_up(given: str | int, resource: str | None, amount: int) -> None:
    assert quantity.parse(given, resource) == amount


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("", quantity.WRONG_FORMAT),
        ("lots", quantity.WRONG_FORMAT),
        ("1 Gi", quantity.WRONG_FORMAT),
        ("1Zi", quantity.WRONG_FORMAT),
        (True, quantity.WRONG_FORMAT),
        ("m", quantity.WRONG_NUMBER),
        ("1mm", quantity.WRONG_SUFFIX),
        ("1e", quantity.WRONG_SUFFIX),
        ("1M5", quantity.WRONG_SUFFIX),
        ("1e1001", quantity.WRONG_SUFFIX),
        ("1e-" + "9" * 100_000, quantity.WRONG_SUFFIX),
        ("9" * 100_000, quantity.WRONG_NUMBER),
        (float("nan"), quantity.WRONG_FORMAT),
        (float("inf"), quantity.WRONG_FORMAT),
        ("NaN", quantity.WRONG_FORMAT),
    ],
)
def test_what_is_no_quantity_is_refused_in_kubernetes_words(given: str, complaint: str) -> None:
    with pytest.raises(ValueError) as refused:
        quantity.canonical(given)
    assert str(refused.value) == complaint


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 8000, "8"),
        ("memory", 64 << 30, "64Gi"),
        ("memory", 1000, "1000"),
        ("pods", 0, "0"),
    ],
)
def test_amounts_are_spelt_as_people_write_them(resource: str, amount: int, text: str) -> None:
    assert quantity.spelt(resource, amount) == text
    assert quantity.parse(text, resource) == amount


def test_sums_keep_the_notation_of_the_first_amount_unless_it_is_zero() -> None:
    assert quantity.plus("1Gi", "512Mi") == "1536Mi"
    assert quantity.plus("0", "1Gi") == "1Gi"
    assert quantity.plus("500m", "1500m") == "2"
    assert quantity.minus("2", "500m") == "1500m"
    assert quantity.minus("1Gi", "1Gi") == "0"
    assert quantity.minus("1", "2") == "-1"
    assert quantity.exact("500m") * 2 == quantity.exact(1)
