"""Writes docs/options.md from the tables of options and flags: `python docs/make_options.py`."""

from __future__ import annotations

from pathlib import Path

from tensorflow_ipu.configs import flags
from tensorflow_ipu.configs.attributes import type_text
from tensorflow_ipu.configs.ipu_config import OPTIONS
from tensorflow_ipu.configs.ranges import Folder, Range

PATH = Path(__file__).with_name("options.md")

_HEAD = """\
# Options

Made by `docs/make_options.py` from `configs/ipu_config.py` and `configs/flags.py`.

*effect*: read, and changes what you see. *model*: read by the memory and cycle model only; never
changes results. *no-op*: accepted; by design it changes neither results nor reports here ("not
modelled": on the chip it would change memory and cycles). *ignored-with-warning*: would change
results or files, and does not here; setting it logs one warning.

*allowed* is the range of a number. Others are refused where the option is set, or when the system
is configured where the reference does so.
"""


def _cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")


def _allowed(allowed: Range | Folder | None) -> str:
    """The range of a number; folders have none."""
    return str(allowed).removeprefix("in the range ") if isinstance(allowed, Range) else ""


def render() -> str:
    """Returns the page."""
    lines = [_HEAD, "## IPUConfig\n", "| option | type | default | allowed | here | meaning |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for name, option in OPTIONS.items():
        cells = (
            f"`{name}`",
            f"`{type_text(option.type)}`",
            f"`{option.default!r}`",
            _allowed(option.allowed),
            option.effect.value,
            option.doc,
        )
        lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    lines += ["\n## TF_POPLAR_FLAGS\n", "| flag | type | default | allowed | here | meaning |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for info in flags.describe():
        kind = type(info.default).__name__
        cells = (
            f"`--{info.name}`",
            kind,
            f"`{info.default!r}`",
            _allowed(info.allowed),
            info.effect.value,
            info.doc,
        )
        lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
