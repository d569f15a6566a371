"""Rows of measurements: reading their files and parsing their texts.

A file is CSV with the columns of `COLUMNS`. `parameters` is a list separated by semicolons of
`name=value` and of plain words. Nothing here knows a value: a row is what its texts say.
"""

from __future__ import annotations

import csv
import dataclasses
import math
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tensorflow_ipu.configs import chips
from tensorflow_ipu.configs.chips import Chip

#: The file of the project.
OWN = Path(__file__).with_name("rows.csv")

COLUMNS = ("source", "table", "chip", "workload", "parameters", "metric", "value", "unit")

# What a chip is called in a text. The longer names come first.
_CHIPS = (("gc200", chips.MK2), ("gc2", chips.MK1), ("bow", chips.BOW), ("mk1", chips.MK1))
_MORE_CHIPS = (("mk2", chips.MK2), ("ipu-m2000", chips.MK2))
_CLOCK = re.compile(r"([\d.]+)\s*([GM])Hz", re.IGNORECASE)
# More than any program has of elements in a dimension, or of tiles.
_LARGEST = 10**9
_MODEL = re.compile(r"not hardware|software model|simulat", re.IGNORECASE)


class NotExpressible(Exception):
    """The model cannot predict a row; the text is the reason, the same for all such rows."""


class Row(NamedTuple):
    """One measurement.

    Args:
        line: in its file.
        source: where it was published.
        table: which table there.
        chip: text that names the chip.
        workload: what ran.
        parameters: options by name; words without a value have an empty one.
        metric: what was measured.
        value: the measurement, greater than 0 or 0.
        unit: of the value.
    """

    line: int
    source: str
    table: str
    chip: str
    workload: str
    parameters: Mapping[str, str]
    metric: str
    value: float
    unit: str

    def __str__(self) -> str:
        """Returns the row's chip, workload, parameters and metric."""
        options = "; ".join(f"{k}={v}" if v else k for k, v in self.parameters.items())
        return f"{self.chip}, {self.workload}, {options}: {self.metric}"

    @property
    def text(self) -> str:
        """Workload and parameters in lower case, to look for words."""
        options = (f"{name}={value}" for name, value in self.parameters.items())
        return ";".join((self.workload, *options)).lower()

    def number(self, *names: str) -> float | None:
        """Returns the number of the first of some options that there is; None without any.

        Raises:
            NotExpressible: it is no finite number.
        """
        for name in names:
            if name in self.parameters:
                return _number(self.parameters[name], name)
        return None

    def whole(self, *names: str) -> int | None:
        """The same for whole numbers from 1."""
        number = self.number(*names)
        if number is None:
            return None
        return checked_size(number, names[0])


def _number(text: str, name: str) -> float:
    try:
        number = float(text.replace(",", ""))
    except ValueError:
        raise NotExpressible(f"{name} is not given as a number") from None
    if not math.isfinite(number):
        raise NotExpressible(f"{name} is not given as a number")
    return number


def checked_size(number: float, name: str) -> int:
    """Returns a size or count of a row as a whole number.

    Raises:
        NotExpressible: it is no whole number from 1, or so large that no program has it.
    """
    if number != int(number) or number < 1:
        raise NotExpressible(f"{name} is no whole number from 1")
    if number > _LARGEST:
        raise NotExpressible(f"{name} is larger than any program has")
    return int(number)


def parameters(text: str) -> dict[str, str]:
    """Returns the options of a text such as `N=16;tiles=1472;recompute`. Names are lower case."""
    found = {}
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        name, _, value = part.partition("=")
        found[name.strip().lower()] = value.strip()
    return found


def chip_of(row: Row) -> Chip:
    """Returns the chip of a row, with the clock that its text may give.

    Raises:
        NotExpressible: it names none, several, or a model in place of a chip.
    """
    text = row.chip.lower()
    if _MODEL.search(text):
        raise NotExpressible("not measured on hardware")
    found: list[Chip] = []
    for name, chip in (*_CHIPS, *_MORE_CHIPS):
        if name in text:
            text = text.replace(name, " ")
            found += [chip] if chip not in found else []
    if len(found) != 1:
        raise NotExpressible("the row names no chip, or several")
    match = _CLOCK.search(row.chip)
    if not match:
        return found[0]
    clock = _number(match[1], "the clock") * (1e9 if match[2].upper() == "G" else 1e6)
    if not clock > 0:
        raise NotExpressible("the clock is not given as a number")
    return dataclasses.replace(found[0], clock=clock)


def read(path: Path) -> tuple[list[Row], list[str]]:
    """Reads a file of rows.

    Args:
        path: the file.

    Returns:
        The rows, and a complaint for each line that is none.

    Raises:
        ValueError: the file lacks columns.
    """
    rows: list[Row] = []
    complaints: list[str] = []
    csv.field_size_limit(sys.maxsize)
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        reader = csv.DictReader(file)
        missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise ValueError(
                f"{path} lacks the columns {', '.join(missing)}: expected {', '.join(COLUMNS)}."
            )
        for record in reader:
            try:
                rows.append(_row(record, reader.line_num))
            except ValueError as error:
                complaints.append(f"line {reader.line_num}: {error}")
    return rows, complaints


def _row(record: Mapping[str | None, str | None], line: int) -> Row:
    """Makes a row of a record of the file."""
    if None in record or any(record[name] is None for name in COLUMNS):
        raise ValueError(f"expected {len(COLUMNS)} fields")
    field = {name: str(record[name]).strip() for name in COLUMNS}
    try:
        value = float(field["value"].replace(",", ""))
    except ValueError:
        raise ValueError(f"value '{field['value']}' is no number") from None
    if not 0 <= value < float("inf"):
        raise ValueError(f"value '{field['value']}' is not a finite number from 0")
    for name in ("workload", "metric", "unit"):
        if not field[name]:
            raise ValueError(f"{name} is empty")
    return Row(
        line,
        field["source"],
        field["table"],
        field["chip"],
        field["workload"],
        parameters(field["parameters"]),
        field["metric"],
        value,
        field["unit"],
    )
