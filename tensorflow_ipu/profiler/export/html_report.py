"""A report as one interactive HTML file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorflow_ipu.profiler.export import html_page, html_static
from tensorflow_ipu.profiler.views.page_data import page_data

if TYPE_CHECKING:
    from tensorflow_ipu.profiler.report import Report

_SCRIPTS = (
    "view_summary.js",
    "view_trees.js",
    "view_memory.js",
    "view_tensors.js",
    "view_roofline.js",
    "view_graph.js",
    "detail_ops.js",
    "detail_memory.js",
    "detail.js",
    "search.js",
    "report.js",
)


def page(report: Report) -> str:
    """Returns a report as an HTML page.

    Args:
        report: the report.
    """
    return html_page.page(
        report.name, html_static.report(report), page_data(report), _SCRIPTS, "showReport"
    )
