"""Plots beside the reports."""

from __future__ import annotations

from typing import Any

from bench.harness import RESULTS, Report


def new_figure(panels: int, width: float = 5.5, height: float = 4.0) -> tuple[Any, list[Any]]:
    """A figure with panels side by side, each of this size."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, panels, figsize=(width * panels, height), layout="constrained", squeeze=False)
    return figure, list(axes[0])


def put_figure(page: Report, figure: Any, caption: str) -> None:
    """The figure as a file beside the page, and in it."""
    RESULTS.mkdir(exist_ok=True)
    figure.savefig(RESULTS / f"{page.name}.png", dpi=110)
    page.image(f"{page.name}.png", caption)
