"""The figure of the coverage suite: shares of runs by part and method."""

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from coverset.reports.figures import MEMBER_COLOURS, STYLE

PANELS = (("whole", "whole set found"), ("size_right", "size right"), ("covered", "covered up to the margin"))


def coverage_figure(summary: list[dict[str, Any]]) -> Figure:
    """A panel for each share of runs: bars of methods, grouped by part."""
    parts = list(dict.fromkeys(line["part"] for line in summary))
    methods = list(dict.fromkeys(line["method"] for line in summary))
    shares = {(line["part"], line["method"]): line for line in summary}
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 1.2 + 0.28 * len(parts) * (len(methods) + 1)), layout="constrained")
        for ax, (field, title) in zip(figure.subplots(1, len(PANELS), sharey=True), PANELS, strict=True):
            for place, method in enumerate(methods):
                known = [number for number, part in enumerate(parts) if (part, method) in shares]
                height = 0.8 / len(methods)
                where = np.array(known) + (place - (len(methods) - 1) / 2) * height
                values = [shares[parts[number], method][field] for number in known]
                colour = MEMBER_COLOURS[place % len(MEMBER_COLOURS)]
                ax.barh(where, values, height=height, color=colour, label=method)
            ax.set(xlim=(0, 1), title=title, xlabel="share of runs")
        first = figure.axes[0]
        first.set_yticks(range(len(parts)), parts)
        first.invert_yaxis()
        figure.legend(*first.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure
