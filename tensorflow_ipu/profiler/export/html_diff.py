"""Comparison of two reports as one HTML file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorflow_ipu.profiler import comparison, snapshot
from tensorflow_ipu.profiler.export import html_page, html_static
from tensorflow_ipu.profiler.views.comparison_data import comparison_data

if TYPE_CHECKING:
    from tensorflow_ipu.profiler.report import Report


def page(before: Report, after: Report, *others: Report) -> str:
    """Returns reports side by side as an HTML page.

    Args:
        before: the first, which the others are compared with.
        after: the second.
        others: further reports; the page offers a choice of the second report.
    """
    found = comparison.differences(snapshot.of_report(before), snapshot.of_report(after))
    title = " and ".join(dict.fromkeys(report.name for report in (before, after, *others)))
    changes = html_static.differences(comparison.largest_first(found))
    static = f"<h1>{html_static.escape(title)}</h1>{changes}"
    data = {
        **comparison_data(before, after),
        "others": [comparison_data(before, other) for other in others],
    }
    return html_page.page(title, static, data, ("diff.js",), "showDifferences")
