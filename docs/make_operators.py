"""Writes docs/operators.md from the tables of ops: `python docs/make_operators.py`."""

from __future__ import annotations

import collections
import textwrap
from pathlib import Path

from tensorflow.core.framework import op_def_pb2
from tensorflow.python.client import pywrap_tf_session

from tensorflow_ipu.compiler.checks import operator_table, operators
from tensorflow_ipu.runtime import native
from tensorflow_ipu.util import op_names

_UNBROKEN = "\0"

PATH = Path(__file__).with_name("operators.md")

_HEAD = """\
# Operators

Made by `docs/make_operators.py` from the table in
`tensorflow_ipu/compiler/checks/operator_table.py`. It lists
every op of TensorFlow 2.15.

| | what it means | ops |
| --- | --- | --- |
{counts}

An IPU runs programs whose shapes are all fixed when they are compiled. Here, TensorFlow's kernels
for CPUs run them, which can do more. So a program with ops that are *here only* runs, and one
warning for each kind of op names the first line that makes it, the reason, and what to do.
`--operator_policy` in `TF_POPLAR_FLAGS` decides: `warn` (the default), `raise` (such a program is
refused with a `tf.errors.InvalidArgumentError`) or `allow` (not a word).

What counts is the compiled program. Ops that the host runs are not in it: those of datasets, those
in `ipu.scopes.outside_compilation_scope()`, those whose results nothing uses, and those that are
computed from constants alone. With float64, complex numbers or strings every op is refused.

## How it was decided

The IPU got its programs from XLA, the compiler of TensorFlow, in TensorFlow 2.6. An op is
*on the chip* if XLA had a kernel for it, and the IPU what the kernel is made of. What XLA lacked is
certain. What the IPU lacked is documented for complex numbers, Fourier transforms, `Qr`, second
gradients of pooling and `NonMaxSuppressionV4`; tensors of variable shape and other decompositions
are concluded from that. For the same Python program, TensorFlow 2.15 sometimes makes other ops than
TensorFlow 2.6 did.

## What has to be known

A shape that depends on values can come from an op that is on the chip, too: `tf.range(n)`,
`tf.reshape(x, shape)`, `x[:n]`. The list of ops on the chip names, in brackets, the inputs that
have to be known when the program is compiled.

* Known are Python numbers, constants, shapes, what is computed from these alone, and what a loop
  passes on unchanged. Not known are variables, elements of infeeds, random numbers, and the
  arguments of the program, because another value would need another program.
* `x[begin:end]` and `tf.slice` may begin anywhere, as long as it is known how much they take.
* A `tf.TensorArray` has a known size. So has what the gradient of a loop keeps: a `tf.while_loop`
  without `maximum_iterations`, whose condition depends on data, has no gradient on the chip.

## What to do instead

| ops that begin with | instead |
| --- | --- |
{instead}

"""

_DROPPED = """\
## Dropped

{ops}.

The chip has no checks of values: `tf.debugging.assert_*` and `tf.debugging.check_numerics` do
nothing in a program. One warning names the lines of the checks that your program asks for; those of
libraries are not mentioned. A check that is put on the host runs, and ends the program with
TensorFlow's error:

```text
with ipu.scopes.outside_compilation_scope():
    tf.debugging.assert_positive(x)
```

Outside of programs, checks that are placed on an IPU do nothing either, and the first one says so.
`config.floating_point_behaviour` ends programs at NaN and infinities: [numerics.md](numerics.md).

"""

_MEANINGS = {
    "on the chip": "runs here and on an IPU",
    "here only": "runs here, and would not compile for an IPU: a warning says so",
    "dropped": "does nothing, here and on an IPU",
    "refused": "an error when the program is compiled",
}


def registered() -> list[op_def_pb2.OpDef]:
    """Returns the ops of TensorFlow that users can make, sorted by name."""
    native.ops()
    ops = op_def_pb2.OpList()
    ops.ParseFromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    return sorted(
        (op for op in ops.op if not op.name.startswith(("_", "Ipu"))), key=lambda op: op.name
    )


def classified() -> dict[str, dict[str, str]]:
    """Returns the ops by their treatment, each with the reason."""
    found: dict[str, dict[str, str]] = {meaning: {} for meaning in _MEANINGS}
    for op in registered():
        refusal = operators.refused_whatever_types(op)
        if op.name in op_names.DROPPED_CHECKS:
            found["dropped"][op.name] = ""
        elif refusal is not None:
            found["refused"][op.name] = _why_refused(op.name, refusal)
        elif op.name in operator_table.ON_CHIP:
            found["on the chip"][op.name] = ""
        else:
            found["here only"][op.name] = operator_table.reason(op.name)
    return found


def _why_refused(op: str, refusal: str) -> str:
    if op in operator_table.ON_CHIP:
        return "it would compile for an IPU, but TensorFlow has no kernel that could run it here"
    return operator_table.NOT_ON_CHIP.get(op, refusal)


def _names(ops: list[str]) -> str:
    """Returns names in code, in lines of a readable length. None is broken."""
    text = ", ".join(f"`{op}`".replace(" ", _UNBROKEN) for op in ops)
    lines = textwrap.wrap(text, 98, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace(_UNBROKEN, " ")


def _with_inputs(op: str) -> str:
    inputs = operator_table.ON_CHIP[op]
    return f"{op}({', '.join(inputs)})" if inputs else op


def _by_reason(ops: dict[str, str]) -> str:
    groups: dict[str, list[str]] = collections.defaultdict(list)
    for op, reason in ops.items():
        groups[reason].append(op)
    parts = [
        f"**{reason[0].upper()}{reason[1:]}** ({len(names)}).\n\n{_names(names)}\n"
        for reason, names in sorted(groups.items(), key=lambda group: (len(group[1]), group[0]))
    ]
    return "\n".join(parts)


def render() -> str:
    """Returns the page."""
    found = classified()
    counts = "\n".join(
        f"| *{name}* | {meaning} | {len(found[name])} |" for name, meaning in _MEANINGS.items()
    )
    instead = "\n".join(
        f"| {', '.join(f'`{start}`' for start in starts)} | {text} |"
        for starts, text in operator_table.INSTEAD
    )
    return "\n".join(
        [
            _HEAD.format(counts=counts, instead=instead),
            "## On the chip\n",
            _names([_with_inputs(op) for op in found["on the chip"]]) + "\n",
            "## Here only\n",
            _by_reason(found["here only"]),
            _DROPPED.format(ops=_names(list(found["dropped"]))),
            "## Refused\n",
            _by_reason(found["refused"]),
        ]
    )


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
