"""Plots of records, and what is written in them."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from vpatch.bench.plots import plots_of
from vpatch.bench.scene import PlotData
from vpatch.bench.summary import rows_of, speed_ups

SPEED_UP, THROUGHPUT = "Speed-up over k", "Output tokens/s over concurrency"
RATE, POSITIONS = "Acceptance rate over k", "Acceptance by position"
LATENCIES = "Latencies at concurrency"


def scene_of(found, ratios=None):
    rows = rows_of(found)
    names = [side["name"] for side in found["sides"]]
    return PlotData("tiny, 24/32", rows, names, speed_ups(rows) if ratios is None else ratios)


def all_of(found, ratios=None):
    plots = plots_of(scene_of(found, ratios))
    by_title = {plot.title: plot for plot in plots}
    assert len(by_title) == len(plots)
    return by_title


def pictures(found):
    found = all_of(found).values()
    return [text for plot in found for text in (*plot.panels, *(sample for sample, _ in plot.key))]


def parsed(picture):
    return ET.fromstring(picture)  # noqa: S314 - it was drawn a moment ago


def texts(picture):
    return [element.text for element in parsed(picture).iter("text")]
