"""`Report`: the data of a report, shown as text and in notebooks."""

from __future__ import annotations

from tensorflow_ipu.profiler.export import html_page, text_report
from tensorflow_ipu.profiler.report_data import ReportData


class Report(ReportData):
    """A compiled program with its plan, options and launches.

    Args:
        plan: memory and time on the chip.
        options: options of the compilation: `config` of the IPU system, `engine`, `flags`.
        executions: launches so far.
        created: ISO date and time of the report.
    """

    def __str__(self) -> str:
        """Returns the text summary."""
        return text_report.text(self)

    def _repr_html_(self) -> str:
        """Returns the report as HTML for notebooks."""
        return html_page.notebook_fragment(self)
