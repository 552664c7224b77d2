"""Counters and histograms that cost next to nothing to use: plain numbers, made into Prometheus' families when asked.

The client library's own take a lock and a dozen calls for every observation; a scheduler makes ten per pod, all on one
thread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

#: name -> what it counts, its labels
Counters = Mapping[str, tuple[str, tuple[str, ...]]]
#: name -> what it measures, its labels, the upper bounds of its buckets
Histograms = Mapping[str, tuple[str, tuple[str, ...], tuple[float, ...]]]


class _Measured:
    """The observations under one set of labels."""

    __slots__ = ("counts", "total")

    def __init__(self, buckets: int) -> None:
        #: One more than there are bounds: the last is for what exceeds them all.
        self.counts = [0] * (buckets + 1)
        self.total = 0.0


class Book:
    """What was counted and measured; a collector for a registry."""

    def __init__(self, counters: Counters, histograms: Histograms) -> None:
        self._counters = counters
        self._histograms = histograms
        self._bounds = {name: bounds for name, (_, _, bounds) in histograms.items()}
        self._counted: dict[str, dict[tuple[str, ...], int]] = {
            name: {} if labels else {(): 0} for name, (_, labels) in counters.items()
        }
        self._measured: dict[str, dict[tuple[str, ...], _Measured]] = {
            name: {} if labels else {(): _Measured(len(bounds))} for name, (_, labels, bounds) in histograms.items()
        }

    def count(self, name: str, *labels: str, by: int = 1) -> None:
        counted = self._counted[name]
        counted[labels] = counted.get(labels, 0) + by

    def observe(self, name: str, value: float, *labels: str) -> None:
        measured, bounds = self._measured[name], self._bounds[name]
        found = measured.get(labels)
        if found is None:
            found = measured[labels] = _Measured(len(bounds))
        found.counts[bisect_left(bounds, value)] += 1
        found.total += value

    def describe(self) -> Iterator[Metric]:
        """All families without their values, so that a registry can tell names that are taken."""
        for name, (text, labels) in self._counters.items():
            yield CounterMetricFamily(name, text, labels=labels)
        for name, (text, labels, _) in self._histograms.items():
            yield HistogramMetricFamily(name, text, labels=labels)

    def collect(self) -> Iterator[Metric]:
        for name, (text, labels) in self._counters.items():
            counter = CounterMetricFamily(name, text, labels=labels)
            for key, value in sorted(self._counted[name].items()):
                counter.add_metric(key, value)
            yield counter
        for name, (text, labels, bounds) in self._histograms.items():
            histogram = HistogramMetricFamily(name, text, labels=labels)
            names = [*map(floatToGoString, bounds), "+Inf"]
            for key, one in sorted(self._measured[name].items()):
                histogram.add_metric(key, list(zip(names, accumulate(one.counts), strict=True)), one.total)
            yield histogram
