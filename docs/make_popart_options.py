"""Writes docs/popart_options.md from the tables of PopART: `python docs/make_popart_options.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tensorflow_ipu.frontends.popart import patterns
from tensorflow_ipu.frontends.popart.session_options import OPTIONS

PATH = Path(__file__).with_name("popart_options.md")

_HEAD = """\
# Options of PopART

Made by `docs/make_popart_options.py` from
`tensorflow_ipu/frontends/popart/session_options.py` and
`tensorflow_ipu/frontends/popart/patterns.py`.

*values*: changes what is computed, kept or refused. *plan*: changes memory and time in reports
and capacity checks, and no values. *ignored with one warning*: on the chip it would change memory
and time; here nothing. *stored*: kept for whoever reads it.

## SessionOptions

| option | default | here | meaning |
| --- | --- | --- | --- |
"""
_PATTERNS = """
## Patterns

Patterns rewrite graphs on the chip. They change no values, so here they are switches that can be
asked; sessions refuse a mandatory one that is off, and `Slice` with steps other than 1 and -1
needs Slice2SliceSubsample before opset 12.

| pattern | by default |
| --- | --- |
"""
_STATES = (
    (patterns.MANDATORY, "mandatory"),
    (patterns.ON_BY_DEFAULT, "on"),
    (patterns.OFF_BY_DEFAULT, "off"),
)


def _default(value: Any) -> str:
    """The default of an option, as a program writes it."""
    name = type(value).__name__
    if hasattr(value, "name"):
        return f"{name}.{value.name}"
    if isinstance(value, (bool, int, float, str, list, dict)):
        return repr(value)
    if isinstance(value, set):
        return f"{{{', '.join(_default(item) for item in value)}}}" if value else "set()"
    return f"{name}()"


def render() -> str:
    """Returns the page."""
    rows = [
        f"| `{name}` | `{_default(option.default())}` | {option.effect.value} | {option.doc} |"
        for name, option in OPTIONS.items()
    ]
    switches = [f"| {name} | {state} |" for names, state in _STATES for name in names]
    return _HEAD + "\n".join(rows) + "\n" + _PATTERNS + "\n".join(switches) + "\n"


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
