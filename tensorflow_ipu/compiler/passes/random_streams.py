"""Pass: makes stateful random ops draw from the device's generator."""

from __future__ import annotations

import dataclasses

from tensorflow.core.framework import function_pb2, node_def_pb2, types_pb2

from tensorflow_ipu.compiler.ir.program import OUTSIDE_ATTRIBUTE, Program
from tensorflow_ipu.compiler.ir.target import Target
from tensorflow_ipu.util import op_names


@dataclasses.dataclass(frozen=True)
class _Stateless:
    """The stateless equivalent of a stateful random op.

    Attributes:
        op: Its type.
        seed_position: Where its seed input is.
        attributes: Attributes that carry over, by the stateful op's name for them.
    """

    op: str
    seed_position: int
    attributes: dict[str, str]


_SAMPLERS = {
    "RandomUniform": _Stateless("StatelessRandomUniform", 1, {"dtype": "dtype", "T": "T"}),
    "RandomStandardNormal": _Stateless("StatelessRandomNormal", 1, {"dtype": "dtype", "T": "T"}),
    "TruncatedNormal": _Stateless("StatelessTruncatedNormal", 1, {"dtype": "dtype", "T": "T"}),
    "RandomUniformInt": _Stateless("StatelessRandomUniformInt", 1, {"Tout": "dtype", "T": "T"}),
    "Multinomial": _Stateless(
        "StatelessMultinomial", 2, {"T": "T", "output_dtype": "output_dtype"}
    ),
    "RandomGamma": _Stateless("StatelessRandomGammaV2", 1, {"T": "dtype", "S": "T"}),
    "ParameterizedTruncatedNormal": _Stateless(
        "StatelessParameterizedTruncatedNormal", 1, {"dtype": "dtype", "T": "S"}
    ),
    "RandomPoissonV2": _Stateless(
        "StatelessRandomPoisson", 1, {"S": "T", "R": "Rtype", "dtype": "dtype"}
    ),
}
_SHUFFLE = "RandomShuffle"
# Candidate samplers -> the distribution that they draw classes from.
_CANDIDATES = {
    "LogUniformCandidateSampler": b"log_uniform",
    "UniformCandidateSampler": b"uniform",
}


def run(program: Program, target: Target) -> None:
    """Rewrites stateful random ops to stateless ones with a seed from the device.

    The seed is a function of the launch, the replica, the op and how often the op ran before in the
    launch (`IpuRandomSeed`), so results repeat after `reset_ipu_seed` for any order of threads, and
    replicas draw different numbers. Seeds of the graph or the op have no effect, as on the device.
    Candidate samplers are the exception: with a seed they draw the same classes each time, and
    different classes on each replica.

    Before: any legal Program. After: ops of the table are left outside compilation only.
    """
    del target
    stream = 0
    for name in program.names_by_use():
        function = program.functions[name]
        for node in list(function.node_def):
            if OUTSIDE_ATTRIBUTE in node.attr:
                continue
            if node.op in _SAMPLERS:
                _make_stateless(function, node, stream)
                stream += 1
            elif node.op == _SHUFFLE:
                _use_device_shuffle(node, stream)
                stream += 1
            elif node.op in _CANDIDATES:
                _use_device_sampler(node, stream)
                stream += 1


def _use_device_shuffle(node: node_def_pb2.NodeDef, stream: int) -> None:
    """Replaces a shuffle by the engine's op, as TensorFlow has no stateless one."""
    node.op = "IpuRandomShuffle"
    for attribute in ("seed", "seed2"):
        node.attr.pop(attribute, None)
    node.attr["stream"].i = stream


def _use_device_sampler(node: node_def_pb2.NodeDef, stream: int) -> None:
    """Replaces a stateful sampler by the engine's stateless one, with equal results."""
    node.attr["distribution"].s = _CANDIDATES[node.op]
    node.attr["stream"].i = stream
    node.op = "IpuCandidateSampler"


def _make_stateless(
    function: function_pb2.FunctionDef, node: node_def_pb2.NodeDef, stream: int
) -> None:
    sampler = _SAMPLERS[node.op]
    seed = function.node_def.add(name=f"{node.name}/ipu_seed", op=op_names.RANDOM_SEED)
    seed.attr["stream"].i = stream
    kept = {new: node.attr[old] for old, new in sampler.attributes.items() if old in node.attr}
    kept.update({key: value for key, value in node.attr.items() if key.startswith("_")})
    replacement = node_def_pb2.NodeDef(name=node.name, op=sampler.op, input=node.input)
    for key, value in kept.items():
        replacement.attr[key].CopyFrom(value)
    replacement.attr["Tseed"].type = types_pb2.DT_INT64
    replacement.input.insert(sampler.seed_position, f"{seed.name}:seed:0")
    seed.input.extend(reference for reference in node.input if reference.startswith("^"))
    node.CopyFrom(replacement)
