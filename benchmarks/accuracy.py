"""Compares the model of the chip with published measurements.

Every row of a file of measurements that the model can express is predicted. Printed are predicted /
measured by group: coverage, median and 90th percentile of the error, rank correlation, noise floor
and bounds; intervals; and what cannot be expressed, by reason. Without `--rows` the project's own
file is taken, and docs/accuracy.md and its pictures are written from it. Takes some minutes, in
which whole models are compiled.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from pathlib import Path

from measured import judged, page, picture, report, residuals
from measured.predict import Outcome, predict
from measured.rows import OWN, read

_PAGE = Path(__file__).resolve().parent.parent / "docs" / "accuracy.md"


def main() -> int:
    """Runs the comparison; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=Path, default=OWN, help="CSV file of measurements")
    parser.add_argument("--all", action="store_true", help="print every row")
    parser.add_argument("--page", type=Path, help="where to write the page")
    arguments = parser.parse_args()
    # TensorFlow is imported with the first whole model.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        rows, complaints = read(arguments.rows)
    except (OSError, ValueError, csv.Error) as error:
        print(f"accuracy.py: {error}", file=sys.stderr)
        print(report.summary(Outcome([], [])))
        return 2
    for complaint in complaints:
        print(f"{arguments.rows}: {complaint}; the line is left out", file=sys.stderr)
    outcome = predict(rows)
    target = arguments.page or (_PAGE if arguments.rows == OWN else None)
    if target is not None:
        target.write_text(page.page(outcome), encoding="utf-8")
    if arguments.rows == OWN:
        picture.write(picture.render(outcome, judged.judged(outcome)))
        print(report.memory_text() + "\n")
    print(report.text(outcome, len(complaints), every_row=arguments.all))
    if arguments.rows != OWN:
        return 0
    complaints = residuals.out_of_date(outcome.predictions)
    for complaint in complaints:
        print(f"accuracy.py: {complaint}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
