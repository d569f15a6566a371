"""Exports the comparison of two reports as one HTML file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorflow_ipu.profiler import comparison, snapshot
from tensorflow_ipu.profiler.export import html_page, html_static
from tensorflow_ipu.profiler.views.comparison_data import comparison_data

if TYPE_CHECKING:
    from tensorflow_ipu.profiler.report import Report


def page(before: Report, after: Report) -> str:
    """Returns two reports side by side as an HTML page.

    Args:
        before: the first.
        after: the second.
    """
    changes = comparison.differences(snapshot.of_plan(before.plan), snapshot.of_plan(after.plan))
    title = f"{before.name} and {after.name}"
    static = f"<h1>{html_static.escape(title)}</h1>{html_static.differences(changes)}"
    data = comparison_data(before, after)
    return html_page.page(title, static, data, ("diff.js",), "showDifferences")
