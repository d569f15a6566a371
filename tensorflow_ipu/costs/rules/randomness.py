"""Costs of random numbers and of ops that draw them."""

from __future__ import annotations

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip.vertex import per_worker, phase, share, supervised, type_name
from tensorflow_ipu.costs.cost import FREE, Cost, OpSpec, Resources, Rule, TensorType, rules
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.costs.rules.elementwise import expression_cycles, vector_width
from tensorflow_ipu.costs.rules.sequences import sorting
from tensorflow_ipu.costs.rules.slicing import lookup, table_of

# Cycles of a worker for each vector: a worker's instruction draws 64 random bits (128 bits a tile
# and cycle, Hot Chips 33, with two that can issue), then come scaling and storing. A truncated
# normal number is drawn again where it was too large. Assumed: the vertices' cycles are not known.
_UNIFORM, _NORMAL, _TRUNCATED = 3, 3, 12
_OVERHEAD = 26
# Operations on each sampled and each true class of a candidate sampler, as its formula has them.
_CANDIDATE = ("exp", "log", "multiply", "exp")


def tile_cycles(elements: int, per_vector: int, dtype: str, chip: Chip) -> float:
    """Returns the tile's cycles for random numbers: `26 + cycles x vectors` on each worker.

    Args:
        elements: numbers on the tile.
        per_vector: cycles for each vector.
        dtype: their type.
        chip: the chip.
    """
    vectors = -(-per_worker(elements, chip) // vector_width(dtype, chip))
    return supervised(_OVERHEAD + per_vector * vectors, chip)


def _drawn(name: str, per_vector: int) -> Rule:
    """Returns a rule for ops that give random numbers of one kind."""

    def cost(spec: OpSpec, resources: Resources) -> Cost:
        result = spec.output()
        on_tile = share(result.elements, result.element_size, resources.tiles)
        cycles = tile_cycles(on_tile, per_vector, result.dtype, resources.chip)
        codelet = f"Random{name}_{type_name(result.dtype)}"
        return phase(cycles, codelet, resources.chip, operands=1, label=Label.ASSUMED)

    return Rule(cost)


def _shuffle(spec: OpSpec, resources: Resources) -> Cost:
    """Prices a shuffle: row numbers are sorted by random keys, then the rows are taken."""
    whole = spec.input(0)
    count = whole.shape[0] if whole.shape else 1
    table = table_of(whole, whole, count)
    keys = TensorType("float32", (count,))
    drawn = _drawn("Uniform", _UNIFORM).cost(OpSpec("", (), (keys,), {}), resources)
    return drawn + sorting(keys, resources) + lookup(count, table, resources)


def _categorical(spec: OpSpec, resources: Resources) -> Cost:
    """Prices Multinomial: a random number per class and sample, and the place of the largest."""
    logits, result = spec.input(0), spec.output()
    classes = logits.shape[-1] if logits.shape else 1
    drawn = TensorType("float32", (result.elements * classes,))
    on_tile = share(drawn.elements, 4, resources.tiles)
    chip = resources.chip
    draw = phase(tile_cycles(on_tile, _UNIFORM, "float32", chip), "RandomUniform_float", chip)
    names = ("log", "log", "add", "maximum")
    compare = phase(expression_cycles(names, on_tile, "float32", chip), "Categorical", chip)
    return draw + compare + Cost(label=Label.ASSUMED)


def _candidates(spec: OpSpec, resources: Resources) -> Cost:
    """Prices a sampler of classes: few numbers, on as many tiles as have some. Assumed."""
    count = sum(tensor.elements for tensor in spec.outputs)
    on_tile = share(count, 4, resources.tiles)
    cycles = expression_cycles(_CANDIDATE, on_tile, "float32", resources.chip)
    return phase(cycles, "CandidateSampler_float", resources.chip, label=Label.ASSUMED)


def _seed(_spec: OpSpec, _resources: Resources) -> Cost:
    """Prices a seed: it is on the chip already."""
    return FREE


_UNIFORM_RULE, _NORMAL_RULE = _drawn("Uniform", _UNIFORM), _drawn("Normal", _NORMAL)
_TRUNCATED_RULE = _drawn("TruncatedNormal", _TRUNCATED)

RULES: dict[str, Rule] = {
    **dict.fromkeys(
        """
        RandomUniform StatelessRandomUniform StatelessRandomUniformV2 RandomUniformInt
        StatelessRandomUniformInt StatelessRandomUniformIntV2 StatelessRandomUniformFullInt
        StatelessRandomUniformFullIntV2
        """.split(),
        _UNIFORM_RULE,
    ),
    **dict.fromkeys(
        "RandomStandardNormal StatelessRandomNormal StatelessRandomNormalV2".split(), _NORMAL_RULE
    ),
    **dict.fromkeys(
        """
        TruncatedNormal StatelessTruncatedNormal StatelessTruncatedNormalV2
        ParameterizedTruncatedNormal StatelessParameterizedTruncatedNormal
        """.split(),
        _TRUNCATED_RULE,
    ),
    **rules(_shuffle, "RandomShuffle IpuRandomShuffle"),
    **rules(_categorical, "Multinomial StatelessMultinomial"),
    **rules(_candidates, "LogUniformCandidateSampler UniformCandidateSampler IpuCandidateSampler"),
    **rules(
        _seed,
        """
        IpuRandomSeed StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg
        StatelessRandomGetAlg
        """,
    ),
}
