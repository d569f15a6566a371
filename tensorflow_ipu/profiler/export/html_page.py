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


def page(
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
