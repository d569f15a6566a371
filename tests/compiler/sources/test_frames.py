"""Which line of a stack is the user's."""

from __future__ import annotations

import os
import sysconfig
import traceback
from pathlib import Path

import keras
import pytest
import tensorflow as tf

import tensorflow_ipu
from tensorflow_ipu.compiler.sources import frames
from tensorflow_ipu.compiler.sources.frames import SourceLocation

_SITE = sysconfig.get_path("purelib")
_FILES = {
    "user": "/home/me/train.py",
    "layers": "/home/me/layers.py",
    "installed": os.path.join(_SITE, "transformers", "modeling_bert.py"),
    "tensorflow": os.path.join(os.path.dirname(tf.__file__), "python", "ops", "math_ops.py"),
    "keras": os.path.join(os.path.dirname(keras.__file__), "src", "engine", "training.py"),
    "own": os.path.join(os.path.dirname(tensorflow_ipu.__file__), "ipu_compiler.py"),
    "stdlib": os.path.join(sysconfig.get_path("stdlib"), "threading.py"),
    "autograph": "/tmp/__autograph_generated_filexyz.py",
}


def _stack(*names: str) -> list[traceback.FrameSummary]:
    """Frames of those files, the outermost first; the n-th is in line n."""
    return [
        traceback.FrameSummary(_FILES[name], number, f"in_{name}", lookup_line=False)
        for number, name in enumerate(names, 1)
    ]


@pytest.mark.parametrize(
    "names, number",
    [
        (("user", "tensorflow"), 1),
        (("user", "layers", "tensorflow"), 2),
        # The line in the program, not the one that runs it; a line of a library only without one.
        (("user", "own", "keras", "layers", "tensorflow"), 4),
        (("user", "own", "keras", "installed", "tensorflow"), 4),
        (("user", "own", "keras", "layers", "installed", "tensorflow"), 4),
        (("user", "own", "keras", "tensorflow"), 1),
        (("installed", "own", "tensorflow"), 1),
        (("user", "installed", "own", "tensorflow"), 1),
        # What a pass of the program calls is the user's again.
        (("user", "own", "tensorflow", "layers", "own", "tensorflow"), 4),
        (("stdlib", "user", "stdlib", "autograph", "tensorflow"), 2),
    ],
)
def test_the_innermost_line_of_the_user_is_found(names: tuple[str, ...], number: int) -> None:
    found = frames.user_line(_stack(*names))
    assert found is not None and found.line == number


def test_no_line_of_a_user() -> None:
    assert frames.user_line(_stack("stdlib", "own", "keras", "tensorflow")) is None


def test_generated_functions_of_ops_are_no_users() -> None:
    def stack(function: str) -> list[traceback.FrameSummary]:
        generated = traceback.FrameSummary("<string>", 9, function, lookup_line=False)
        return [*_stack("user"), generated]

    assert frames.user_line(stack("ipu_launch")).line == 1
    assert frames.user_line(stack("main")).line == 9  # a program given as `python -c`


def test_the_line_that_is_running() -> None:
    found = frames.current()
    assert found is not None
    assert (Path(found.file).name, found.function) == (Path(__file__).name, found.function)
    assert found.function == "test_the_line_that_is_running"
    assert str(found) == f"{Path(__file__).name}:{found.line} ({found.function})"
    assert found.path == f"{__file__}:{found.line} ({found.function})"


def test_a_location_is_shown_by_file_name_and_line() -> None:
    location = SourceLocation("/home/me/train.py", 12, "step")
    assert (str(location), location.path) == ("train.py:12 (step)", "/home/me/train.py:12 (step)")


def _keras_stack(*places: tuple[str, str]) -> list[traceback.FrameSummary]:
    folder = os.path.join(os.path.dirname(keras.__file__), "src")
    return [
        traceback.FrameSummary(os.path.join(folder, file), 1, name, lookup_line=False)
        for file, name in places
    ]


@pytest.mark.parametrize(
    "places, expected",
    [
        ([], (0, "")),
        ([("engine/base_layer.py", "__call__"), ("layers/core/dense.py", "call")], (1, "")),
        ([("engine/base_layer.py", "__call__"), ("engine/base_layer.py", "__call__")], (2, "")),
        ([("losses.py", "__call__"), ("losses.py", "call"), ("losses.py", "huber")], (0, "huber")),
        ([("metrics/base_metric.py", "decorated"), ("losses.py", "huber")], (0, "metrics")),
        ([("optimizers/optimizer.py", "minimize")], (0, "optimizer")),
    ],
)
def test_frames_of_keras_are_found(
    places: list[tuple[str, str]], expected: tuple[int, str]
) -> None:
    assert tuple(frames.keras_frames(_keras_stack(*places))) == expected
