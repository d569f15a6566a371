"""A page: one file with its style, scripts and data, without external resources.

The scripts in `page/` are written by subject. A page has them one after the other in one function,
so a script can use definitions of earlier ones.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from string import Template
from typing import Any

from tensorflow_ipu.profiler import comparison
from tensorflow_ipu.profiler.export import html_static
from tensorflow_ipu.profiler.export.comparison_data import comparison_data
from tensorflow_ipu.profiler.export.page_data import page_data
from tensorflow_ipu.profiler.report_data import ReportData

_FOLDER = "tensorflow_ipu.profiler.export.page"


#: Scripts that all pages have.
COMMON_SCRIPTS = (
    "dom.js",
    "format.js",
    "state.js",
    "theme.js",
    "model.js",
    "table.js",
    "parts.js",
    "zoom.js",
    "plot.js",
    "lanes.js",
    "view_operations.js",
    "view_timeline.js",
    "frame.js",
)


# Nothing is fetched, and only the page's own script and style count: a name in a report that gets
# into the page as markup would do nothing.
_POLICY = (
    "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; "
    "base-uri 'none'; form-action 'none'"
)


def assemble(
    title: str, static: str, data: Mapping[str, Any], scripts: Sequence[str], start: str
) -> str:
    """Returns a page.

    Args:
        title: its title.
        static: markup that is shown without JavaScript.
        data: data that the scripts show, for JSON.
        scripts: files of `page/` that it has besides `COMMON_SCRIPTS`.
        start: the function of them that shows the page.
    """
    style = f"\n{_file('style.css')}"
    script = _script((*COMMON_SCRIPTS, *scripts), start)
    policy = _POLICY.format(script=_digest(script), style=_digest(style))
    return Template(_file("skeleton.html")).substitute(
        policy=html.escape(policy, quote=True),
        title=html.escape(title),
        style=style,
        static=static,
        data=script_json(data),
        script=script,
    )


def script_json(data: Mapping[str, Any]) -> str:
    """Returns data as JSON that is safe in a script element, for any texts in it.

    Args:
        data: data for JSON.
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    # In JSON this character is in texts only. No text can end the element, or begin a comment.
    return text.replace("<", "\\u003c")


@functools.cache
def _file(name: str) -> str:
    """Returns the text of a file in the folder `page`."""
    return resources.files(_FOLDER).joinpath(name).read_text(encoding="utf-8")


@functools.cache
def _script(names: tuple[str, ...], start: str) -> str:
    """Returns the scripts in one function, with the call of its entry."""
    parts = "\n".join(_file(name) for name in names)
    return f'\n(() => {{\n"use strict";\n{parts}\n{start}();\n}})();\n'


def _digest(text: str) -> str:
    """Returns the hash that identifies a script or a style in a policy."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# --- Report ---

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


def report_page(report: ReportData) -> str:
    """Returns a report as an HTML page.

    Args:
        report: the report.
    """
    return assemble(
        report.name, html_static.report(report), page_data(report), _SCRIPTS, "showReport"
    )


# --- Comparison ---


def comparison_page(before: ReportData, after: ReportData, *others: ReportData) -> str:
    """Returns reports side by side as an HTML page.

    Args:
        before: the first, which the others are compared with.
        after: the second.
        others: further reports; the page offers a choice of the second report.
    """
    found = comparison.differences(comparison.of_report(before), comparison.of_report(after))
    title = " and ".join(dict.fromkeys(report.name for report in (before, after, *others)))
    changes = html_static.differences(comparison.largest_first(found))
    static = f"<h1>{html_static.escape(title)}</h1>{changes}"
    data = {
        **comparison_data(before, after),
        "others": [comparison_data(before, other) for other in others],
    }
    return assemble(title, static, data, ("diff.js",), "showDifferences")


# --- Notebook ---

# A notebook stores its output in its file. Larger pages are files of their own.
_MOST_CHARACTERS = 5_000_000


_HEIGHT = 680


def notebook_fragment(report: ReportData) -> str:
    """Returns the page of a report in a frame, as HTML that stands inside of a page.

    The frame is on its own: style and names of the notebook have no effect in it, nor the other way
    round. Of programs whose page is too large for a notebook the main numbers are shown.

    Args:
        report: the report.
    """
    whole = report_page(report)
    if len(whole) > _MOST_CHARACTERS:
        return (
            f"<div>{html_static.report(report)}<p>The whole report has {len(whole):,} characters, "
            "too many for a notebook: <code>report.save(FILE)</code> and "
            "<code>tensorflow-ipu report FILE --format html -o report.html</code>.</p></div>"
        )
    return (
        f'<iframe srcdoc="{html_static.escape(whole)}" sandbox="allow-scripts" '
        f'title="{html_static.escape(report.name)}" width="100%" height="{_HEIGHT}" '
        'style="border: 1px solid #8884; border-radius: 8px"></iframe>'
    )
