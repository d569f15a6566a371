"""Displays and cells of a notebook, which replace a terminal and files."""

from __future__ import annotations

import html
import sys
from typing import Any


def _shell() -> Any:
    """Returns the IPython that runs this program, None for a program of plain Python."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def is_running() -> bool:
    """Returns whether this program runs in a notebook, and not in a terminal or a script."""
    return getattr(_shell(), "kernel", None) is not None


def cell_of(file: str) -> str | None:
    """Returns the name of the cell that a file stands for.

    Args:
        file: a file, as Python knows it.

    Returns:
        `In[7]`, or None if it is no cell of a notebook or of IPython.
    """
    compiler: Any = getattr(_shell(), "compile", None)
    if not hasattr(compiler, "format_code_name"):  # IPython before 8.1
        return None
    label_and_name = compiler.format_code_name(file)
    return str(label_and_name[1]) if label_and_name else None


class ProgressBar:
    """A bar in the output of the running cell, updated in place.

    Frontends that show no HTML show the text alone.
    """

    def __init__(self, text: str) -> None:
        """Shows the bar.

        Args:
            text: text beside it.
        """
        from IPython.display import display  # there is one: this runs in a notebook

        self._handle = display(_Shown(0.0, text), display_id=True)

    def update(self, share: float, text: str) -> None:
        """Moves the bar; at the end only its text is left.

        Args:
            share: finished share of the work, from 0 to 1.
            text: text beside it.
        """
        self._handle.update(_Shown(share, text))


class _Shown:
    """A state of a bar."""

    def __init__(self, share: float, text: str) -> None:
        self._share = share
        self._text = text

    def __repr__(self) -> str:
        """Returns the text, for frontends without HTML."""
        return self._text

    def _repr_html_(self) -> str:
        text = html.escape(self._text)
        if self._share >= 1:
            return f"<small>{text}</small>"
        return f'<progress value="{self._share:.3f}"></progress> <small>{text}</small>'
