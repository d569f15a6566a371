# Made by stubs/make_stubs.py.

from tensorflow_ipu.distributed.host_collective_ops import allgather as allgather
from tensorflow_ipu.distributed.host_collective_ops import allreduce as allreduce
from tensorflow_ipu.distributed.host_collective_ops import broadcast as broadcast
from tensorflow_ipu.distributed import host_collective_ops as host_collective_ops
from tensorflow_ipu.distributed import ipu_multi_worker_strategy as ipu_multi_worker_strategy
from tensorflow_ipu.distributed import popdist_strategy as popdist_strategy
