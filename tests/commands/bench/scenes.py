"""Plots of records, and what is written in them."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from tests.commands.bench.records import validated
from vpatch.commands.bench.report.plots import plots_of
from vpatch.commands.bench.report.scene import PlotData
from vpatch.commands.bench.summary import rows_of, speed_ups

SPEED_UP, THROUGHPUT = "Speed-up over k", "Output tokens/s over concurrency"
RATE, POSITIONS = "Acceptance rate over k", "Acceptance by position"
LATENCIES = "Latencies at concurrency"


def scene_of(found, ratios=None):
    bench = validated(found)
    rows = rows_of(bench)
    names = [side.name for side in bench.sides]
    return PlotData("tiny, 24/32", rows, names, speed_ups(rows) if ratios is None else ratios)


def all_of(found, ratios=None):
    plots = plots_of(scene_of(found, ratios))
    by_title = {plot.title: plot for plot in plots}
    assert len(by_title) == len(plots)
    return by_title


def pictures(plots):
    return [text for plot in plots for text in (*plot.panels, *(sample for sample, _ in plot.key))]


def parsed(picture):
    return ET.fromstring(picture)  # noqa: S314 - it was drawn a moment ago


def texts(picture):
    return [element.text for element in parsed(picture).iter("text")]
