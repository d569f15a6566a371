"""Programs for `tests/frontends/poplar/harness.hpp`, with the values that they have to give."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

NAMES = {
    np.dtype(np.float32): "float",
    np.dtype(np.float16): "half",
    np.dtype(np.int32): "int",
    np.dtype(np.uint32): "uint",
    np.dtype(np.bool_): "bool",
    np.dtype(np.int8): "char",
    np.dtype(np.uint8): "uchar",
    np.dtype(np.int16): "short",
    np.dtype(np.uint16): "ushort",
    np.dtype(np.int64): "long",
    np.dtype(np.uint64): "ulong",
}
# As `Type::toString` has them.
TYPES = {
    **{name: dtype for dtype, name in NAMES.items()},
    "unsigned int": np.dtype(np.uint32),
    "unsigned char": np.dtype(np.uint8),
    "signed char": np.dtype(np.int8),
    "unsigned short": np.dtype(np.uint16),
    "long long": np.dtype(np.int64),
    "unsigned long long": np.dtype(np.uint64),
}
TOLERANCES = {np.dtype(np.float32): (2e-6, 2e-6), np.dtype(np.float16): (2e-3, 1e-5)}

# What a session gives to a call: the name of a tensor, a number, a word, or a list with its length.
Argument = "str | float | Sequence[int]"


def _words(values: np.ndarray) -> str:
    """Returns the elements as text that is read back exactly."""
    if values.dtype == np.bool_:
        values = values.astype(np.int32)
    kind = float if values.dtype.kind == "f" else int
    return " ".join(repr(kind(value)) for value in values.ravel())


class Session:
    """Lines of a program, and the arrays that it has to print."""

    def __init__(self, seed: int = 0) -> None:
        """Seeds the generators of arrays and of choices."""
        self.rng = np.random.default_rng(seed)
        self.choices = random.Random(seed)
        self.lines: list[str] = []
        self.functions: set[str] = set()
        self._expected: list[tuple[np.ndarray, tuple[float, float]]] = []
        self._errors: list[tuple[str, ...]] = []
        self._count = 0

    def _name(self) -> str:
        self._count += 1
        return f"t{self._count}"

    def tensor(self, values: np.ndarray, *, constant: bool = False) -> str:
        """Adds a tensor with values and returns its name."""
        name = self._name()
        shape = " ".join(map(str, (values.ndim, *values.shape)))
        kind = "constant" if constant else "tensor"
        self.lines.append(f"{kind} {name} {NAMES[values.dtype]} {shape} : {_words(values)}")
        return name

    def viewed(self, values: np.ndarray) -> str:
        """Adds a tensor whose elements are not contiguous: it is a view of another."""
        kind = self.choices.choice(["shuffle", "reverse", "slice"])
        if values.ndim < 2:
            kind = "plain" if values.ndim == 0 else "reverse"
        if kind == "shuffle":
            order = list(reversed(range(values.ndim)))
            return self.view(self.tensor(values.transpose(order)), "shuffle", order)
        if kind == "reverse":
            return self.view(self.tensor(np.flip(values, 0)), "reverse", 0)
        if kind == "slice":
            dimension = values.ndim - 1
            wide = np.concatenate([values, values], axis=dimension)
            return self.view(self.tensor(wide), "slice", 0, values.shape[dimension], dimension)
        return self.tensor(values)

    def view(self, tensor: str, op: str, *arguments: Argument) -> str:
        """Applies an operation of Tensor."""
        name = self._name()
        self.lines.append(f"view {name} {tensor} {op} {self._text(arguments)}")
        return name

    def call(self, function: str, *arguments: Argument, result: bool = True) -> str:
        """Calls a function of the library and returns the name of its result."""
        name = self._name() if result else "-"
        self.functions.add(function)
        self.lines.append(f"call {name} {function} {self._text(arguments)}")
        return name

    def expect(
        self, tensor: str, values: np.ndarray, tolerance: tuple[float, float] | None = None
    ) -> None:
        """Demands the values of a tensor at this point of the program."""
        values = np.array(values)
        self.lines.append(f"read {tensor}")
        self._expected.append((values, tolerance or TOLERANCES.get(values.dtype, (0, 0))))

    def expect_error(self, kind: str, *texts: str, function: str, arguments: Sequence = ()) -> None:
        """Demands that a call raises an error of a class with texts."""
        self.lines.append(f"error {function} {self._text(arguments)}")
        self._errors.append((kind, *texts))

    @staticmethod
    def _text(arguments: Sequence) -> str:
        texts = []
        for argument in arguments:
            if isinstance(argument, (list, tuple)):
                texts.append(" ".join(map(str, (len(argument), *argument))))
            else:
                texts.append(str(argument))
        return " ".join(texts)

    def check(self, run: Callable[[str], str]) -> None:
        """Runs the program, and compares its output with the expected values."""
        output = run("\n".join(self.lines)).splitlines()
        errors, values = output[: len(self._errors)], output[len(self._errors) :]
        for line, (kind, *texts) in zip(errors, self._errors):
            assert line.startswith(f"{kind}: "), line
            for text in texts:
                assert text in line
        assert len(values) == len(self._expected)
        reads = [i for i, line in enumerate(self.lines) if line.startswith("read ")]
        for at, line, (expected, (relative, absolute)) in zip(reads, values, self._expected):
            around = "\n".join(text[:200] for text in self.lines[max(0, at - 8) : at + 1])
            kind, shape, words = (part.strip() for part in line.split(":"))
            assert TYPES[kind] == expected.dtype, around
            assert tuple(map(int, shape.split()[1:])) == expected.shape, around
            convert = float if expected.dtype.kind == "f" else int
            actual = np.array([convert(word) for word in words.split()], expected.dtype)
            np.testing.assert_allclose(
                actual.reshape(expected.shape),
                expected,
                rtol=relative,
                atol=absolute,
                err_msg=around,
            )
