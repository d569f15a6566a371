"""Shows a report in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorflow_ipu.profiler.export import html_assets, html_plots, html_report

if TYPE_CHECKING:
    from tensorflow_ipu.profiler.report import Report


def fragment(report: Report) -> str:
    """Returns the most important numbers and plots, as HTML that stands inside of a page.

    Args:
        report: the report.
    """
    return (
        f"<style>{html_assets.STYLE}</style><div class='ipu-report'>"
        f"{html_report.head(report)}"
        f"<h3>Memory per tile, IPU {report.plan.fullest.ipu}</h3>"
        f"{html_plots.memory_per_tile(report.plan.fullest)}"
        f"<h3>What each IPU does in a launch</h3>{html_plots.timeline(report)}"
        f"<h3>Cycles by layer</h3>{html_plots.layers(report)}</div>"
    )
