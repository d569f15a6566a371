"""Configuration of a whole-model row, and settings derived from published ones.

Published for these models, and taken where a row does not say otherwise:

* ResNet-50: one IPU per replica, four sequential stages with recomputation, proportion 0.15, batch
  norms over two replicas (submissions to MLPerf; graphcore/examples).
* BERT of TensorFlow and vendor tables: four IPUs per replica and five stages on the IPUs 0, 1, 2,
  3, 0, micro-batch and encoder layers per stage by size and length of sequences
  (graphcore/examples, nlp/bert/tensorflow2/configs).
* BERT in MLPerf: as many stages as the row says, one IPU each, encoder layers spread evenly.
* Activations are computed again from checkpoints, after each encoder layer or block (model cards of
  Graphcore/bert-large-uncased and bert-base-uncased; Graphcore on its MLPerf v1.1 runs).
* The optimizer's state of BERT-Large is in streaming memory, split over the replicas (its card, and
  MLPerf v1.0 and v1.1; assumed for v2.0), that of the others on the chip (the other card).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.releases import CURRENT, SDK_2_1, Release

from .rows import NotExpressible, Row, checked_size, chip_of

RESNET, BERT_LARGE, BERT_BASE = "ResNet-50", "BERT-Large", "BERT-Base"

#: Models whose optimizer state is off the chip.
OFF_CHIP = frozenset({BERT_LARGE})

_MODELS = {"resnet-50": RESNET, "bert-large": BERT_LARGE, "bert-base": BERT_BASE}
_POD = re.compile(r"pod[- ]?(\d+)")
_MACHINE = re.compile(r"bow-2000|m2000")
_IPUS_OF_MACHINE = 4
_LENGTH = re.compile(r"sl\s?(\d+)")
_COUNT = re.compile(r"gradient accumulation[ =](\d+)")
_STAGES = re.compile(r"(\d+)-stage pipeline x\s?(\d+)")
# The only round of MLPerf with an SDK before 2.3, as its system descriptions say.
_OLD_ROUND = re.compile(r"mlperf training v1\.0")
_IPUS_PER_REPLICA = re.compile(r"(\d+) ipus?/replica")

# Sequences of a pack where a row is packed: only at length 512 is the mean published (about 2, in
# Krell et al., arXiv:2107.02027); rows of MLPerf imply the same by their batch sizes.
_PACKED = {512: 2.0}

# Micro-batch by model and tokens of a sequence (graphcore/examples); ResNet's is that of MLPerf.
_MICRO_BATCH = {
    BERT_LARGE: {128: 8, 384: 2, 512: 2},
    BERT_BASE: {128: 32, 384: 8},
}
_RESNET_MICRO_BATCH = 22
# Replicas over which batch norms of ResNet have their statistics (MLPerf).
_NORM_GROUP = 2
# More than any micro-batch or gradient accumulation count: 8,160 is the largest that is published.
_MOST = 100_000
#: IPUs of a replica where a row names no stages.
IPUS = {RESNET: 1, BERT_LARGE: 4, BERT_BASE: 4}


class Configuration(NamedTuple):
    """A training run as a row describes it.

    Args:
        model: one of the names above.
        chip: the chip.
        replicas: copies that run at once.
        micro_batch: images, sequences or packs of sequences.
        accumulation: micro-batches of one replica for an update.
        length: tokens of a sequence, 0 for images.
        packed: sequences of a pack, on average; 1 unless packed.
        stages: pipeline stages with an IPU each, 0 for the layout of TensorFlow.
        norm_group: replicas over which batch norms have their statistics.
        release: the release of the SDK.
    """

    model: str
    chip: Chip
    replicas: int
    micro_batch: int
    accumulation: int
    length: int
    packed: float
    stages: int
    norm_group: int = 2
    release: Release = CURRENT

    @property
    def ipus(self) -> int:
        """IPUs of a replica."""
        return self.stages or IPUS[self.model]

    @property
    def items(self) -> float:
        """Images or sequences, unpacked, of one update."""
        return self.replicas * self.micro_batch * self.accumulation * self.packed


def configuration(row: Row) -> Configuration | None:
    """Returns the configuration of a row; None if it is of no model that is known here.

    Raises:
        NotExpressible: something is missing.
    """
    text = row.text.lower()
    model = next((name for word, name in _MODELS.items() if word in text), None)
    if model is None:
        return None
    if "inference" in text or "generation" in text:
        raise NotExpressible("no program of inference")
    chip = chip_of(row)
    length = _length(text) if model != RESNET else 0
    stages, replicas = _stages_and_replicas(row, text, model)
    packed = _packed(text, length)
    micro_batch = row.whole("microbatch", "micro-batch", "micro batch")
    count = row.whole("ga", "gradient accumulation") or _count(text)
    norm_group = row.whole("bn span") or _NORM_GROUP
    release = SDK_2_1 if _OLD_ROUND.search(row.source.lower()) else CURRENT
    if max(micro_batch or 1, count or 1) > _MOST:
        raise NotExpressible("a micro-batch or count larger than any program has")
    total = row.number("gbs", "global batch")
    if micro_batch and count:
        if total is not None and not total > 0:
            raise NotExpressible("the batch size is not above 0")
        if total and "packed" in text:
            packed = total / (micro_batch * count * replicas)
        return Configuration(
            model, chip, replicas, micro_batch, count, length, packed, stages, norm_group, release
        )
    if total is None:
        raise NotExpressible("the batch size is not given")
    # Batches of packed rows count unpacked sequences, as those of MLPerf show.
    micro_batch, count = split_batch(total / packed, replicas, micro_batch, _largest(model, length))
    return Configuration(
        model, chip, replicas, micro_batch, count, length, packed, stages, norm_group, release
    )


def _count(text: str) -> int | None:
    """The gradient accumulation count of a text such as `gradient accumulation 24`."""
    match = _COUNT.search(text)
    return checked_size(int(match[1]), "the gradient accumulation count") if match else None


def _length(text: str) -> int:
    match = _LENGTH.search(text)
    if match is None:
        raise NotExpressible("the length of sequences is not given")
    return checked_size(int(match[1]), "the length of sequences")


def _packed(text: str, length: int) -> float:
    if "packed" not in text:
        return 1.0
    if length not in _PACKED:
        raise NotExpressible("the sequences per pack are not given")
    return _PACKED[length]


def _stages_and_replicas(row: Row, text: str, model: str) -> tuple[int, int]:
    """Stages with an IPU each, 0 for the layout of TensorFlow, and replicas."""
    pipeline = _STAGES.search(text)
    if pipeline and model != RESNET:
        stages, replicas = (
            checked_size(int(text), "stages or replicas") for text in pipeline.groups()
        )
        return stages, replicas
    replicas = row.whole("replicas")
    if replicas is None:
        given = _IPUS_PER_REPLICA.search(text)
        ipus = checked_size(int(given[1]), "IPUs of a replica") if given else IPUS[model]
        replicas = ipus_of(row) // ipus
    if replicas < 1:
        raise NotExpressible("fewer IPUs than a replica has")
    return 0, replicas


def ipus_of(row: Row) -> int:
    """Returns the number of IPUs of the system of a row.

    Args:
        row: its parameters name a Pod, one machine of four IPUs, or the number.

    Raises:
        NotExpressible: they do not.
    """
    pod = _POD.search(row.text)
    if pod:
        return checked_size(int(pod[1]), "IPUs")
    if _MACHINE.search(row.text):
        return _IPUS_OF_MACHINE
    given = row.whole("ipus")
    if given is not None:
        return given
    raise NotExpressible("the number of IPUs is not given")


def _largest(model: str, length: int) -> int:
    """The largest micro-batch that is published for a model."""
    if model == RESNET:
        return _RESNET_MICRO_BATCH
    known = _MICRO_BATCH[model]
    nearest = min(known, key=lambda tokens: abs(tokens - length))
    # As many tokens as at the nearest length.
    return max(1, known[nearest] * nearest // length)


def split_batch(
    total: float, replicas: int, micro_batch: int | None, largest: int
) -> tuple[int, int]:
    """Returns micro-batch and count of a batch: the largest micro-batch that divides it.

    Args:
        total: batch of all replicas.
        replicas: copies that run at once.
        micro_batch: the micro-batch if it is given.
        largest: micro-batch else.

    Raises:
        NotExpressible: the batch cannot be divided so.
    """
    each = total / replicas
    if each != int(each) or each < 1:
        raise NotExpressible("the batch is not divisible by the replicas")
    candidates = [micro_batch] if micro_batch else range(largest, 0, -1)
    for candidate in candidates:
        if int(each) % candidate == 0:
            return candidate, int(each) // candidate
    raise NotExpressible("the batch is not divisible by the micro-batch")
