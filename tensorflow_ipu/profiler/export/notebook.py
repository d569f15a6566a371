"""A report in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorflow_ipu.profiler.export import html_report, html_static

if TYPE_CHECKING:
    from tensorflow_ipu.profiler.report import Report

# A notebook stores its output in its file. Larger pages are files of their own.
_MOST_CHARACTERS = 5_000_000
_HEIGHT = 680


def fragment(report: Report) -> str:
    """Returns the page of a report in a frame, as HTML that stands inside of a page.

    The frame is on its own: style and names of the notebook have no effect in it, nor the other way
    round. Of programs whose page is too large for a notebook the main numbers are shown.

    Args:
        report: the report.
    """
    page = html_report.page(report)
    if len(page) > _MOST_CHARACTERS:
        return (
            f"<div>{html_static.report(report)}<p>The whole report has {len(page):,} characters, "
            "too many for a notebook: <code>report.save(FILE)</code> and "
            "<code>tensorflow-ipu report FILE --format html -o report.html</code>.</p></div>"
        )
    return (
        f'<iframe srcdoc="{html_static.escape(page)}" sandbox="allow-scripts" '
        f'title="{html_static.escape(report.name)}" width="100%" height="{_HEIGHT}" '
        'style="border: 1px solid #8884; border-radius: 8px"></iframe>'
    )
