"""Cases of C++ programs: tensors go in and come out as text (`cases.h`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

#: Types of the text, by those of NumPy.
TYPES = {
    "float32": "float",
    "float16": "half",
    "int32": "int",
    "uint32": "unsigned",
    "bool": "bool",
}
_DTYPES = {name: np.dtype(dtype) for dtype, name in TYPES.items()}

Arrays = dict[str, "np.ndarray[Any, Any]"]
Run = Callable[..., Arrays]


class PoplarError(Exception):
    """An error that a program has caught: the name of its class, and its text."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


def _line(name: str, value: object) -> str:
    """Returns the line of the input for a tensor or a value."""
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        shape = ",".join(map(str, array.shape)) or "-"
        numbers = array.astype(np.int64) if array.dtype.kind in "bui" else array.astype(np.float64)
        text = " ".join(map(repr, numbers.ravel().tolist()))
        return f"tensor {name} {TYPES[array.dtype.name]} {shape} {text}"
    if isinstance(value, (list, tuple)):
        return f"value {name} {' '.join(map(str, value))}"
    return f"value {name} {int(value) if isinstance(value, bool) else value}"


def _arrays(output: str) -> Arrays:
    """Returns the tensors of an output by name."""
    result: Arrays = {}
    for line in output.splitlines():
        if line.startswith("error "):
            _, kind, text = line.split(" ", 2)
            raise PoplarError(kind, output[len("error ") + len(kind) + 1 :].strip() or text)
        _, name, dtype, shape, *values = line.split(" ")
        sizes = [] if shape == "-" else [int(size) for size in shape.split(",")]
        numbers = np.array([float(value) for value in values])
        result[name] = numbers.astype(_DTYPES[dtype]).reshape(sizes)
    return result


def runner(run: Callable[..., str], program: str, libraries: tuple[str, ...]) -> Run:
    """Returns a function that runs a case of a program with tensors and values by name.

    Args:
        run: the fixture `run_poplar`.
        program: the source, from the folder of these tests.
        libraries: what it is linked with.
    """

    def run_case(case: str, inputs: Mapping[str, object] | None = None, **values: object) -> Arrays:
        text = "\n".join(_line(name, value) for name, value in {**(inputs or {}), **values}.items())
        return _arrays(run(program, case, libraries=libraries, text=text + "\n"))

    return run_case


def random_array(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray[Any, Any]:
    """Returns normally distributed numbers.

    Args:
        shape: the sizes.
        seed: of the generator.
        dtype: the type.
    """
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)
