"""Counters and histograms as plain numbers, turned into Prometheus' metric families at each scrape.

Those of the client library take a lock and a dozen calls for every observation.  A scheduler makes ten per pod, all on
one thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from ...base.histogram import Histogram

#: name -> what it counts, its labels
Counters = Mapping[str, tuple[str, tuple[str, ...]]]
#: name -> what it measures, its labels, the upper bounds of its buckets
Histograms = Mapping[str, tuple[str, tuple[str, ...], tuple[float, ...]]]


class Book:
    """All counters and histograms; a collector for a registry."""

    def __init__(self, counters: Counters, histograms: Histograms) -> None:
        self._counters = counters
        self._histograms = histograms
        self._counted: dict[str, dict[tuple[str, ...], float]] = {
            name: {} if labels else {(): 0} for name, (_, labels) in counters.items()
        }
        self._measured: dict[str, dict[tuple[str, ...], Histogram]] = {
            name: {} if labels else {(): Histogram(bounds)} for name, (_, labels, bounds) in histograms.items()
        }

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        counted = self._counted[name]
        counted[labels] = counted.get(labels, 0) + by

    def measured(self, name: str, *labels: str) -> Histogram:
        """Where the values of one set of labels go; frequent callers keep it."""
        measured = self._measured[name]
        found = measured.get(labels)
        if found is None:
            found = measured[labels] = Histogram(self._histograms[name][2])
        return found

    def describe(self) -> Iterator[Metric]:
        """All families without values, so that a registry can detect duplicate names."""
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
