"""Shared parts of the pipeline examples: their options, and the report of a run."""

from __future__ import annotations

import argparse

from tensorflow.python import ipu


def parse_arguments(description: str) -> argparse.Namespace:
    """Returns the options of the command line; `schedule` is a PipelineSchedule."""
    schedules = ipu.pipelining_ops.PipelineSchedule.__members__
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--launches", type=int, default=20, help="passes over the training images")
    parser.add_argument("--schedule", choices=schedules, default="Grouped")
    parser.add_argument("--recompute", action="store_true", help="recompute activations")
    parser.add_argument("--picture", help="file to draw the schedule in, such as schedule.svg")
    arguments = parser.parse_args()
    arguments.schedule = schedules[arguments.schedule]
    return arguments


def print_report(picture: str | None) -> None:
    """Prints the schedule of the training pipeline, then a summary of all programs.

    Args:
        picture: Path of an SVG file for a picture of the schedule, None for no picture.
    """
    # Programs are in the order in which they were compiled, and training came first.
    program = next(one for one in ipu.profiler.executables() if one.pipeline)
    print(f"replicas: {program.replicas}, with {program.ipus_used} IPUs each\n")
    print(program.pipeline.schedule.text(max_steps=20))
    print("\ncopies between IPUs in one launch of one replica:")
    for copy in program.copies:
        name = copy.tensor.replace("pipeline/repeat/while/", "")
        route = f"IPU {copy.source} to IPU {copy.destination}"
        print(f"  {route}: {copy.runs} times {copy.bytes} bytes, {name}")
    print(f"\n{ipu.profiler.summary()}")
    if picture:
        program.pipeline.schedule.write_svg(picture)
        print(f"\nThe schedule is drawn in {picture}.")
