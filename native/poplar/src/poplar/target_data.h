// Figures of targets and devices.
#ifndef TENSORFLOW_IPU_POPLAR_TARGET_DATA_H_
#define TENSORFLOW_IPU_POPLAR_TARGET_DATA_H_

#include <string>

#include "poplar/Target.hpp"

namespace poplar::core {

// Of one chip, from configs/chips.py: see make_chips.py.
struct Chip {
  const char* architecture;
  unsigned tiles, workers, memory_per_tile;
  double clock;
  unsigned exchange_bytes_per_cycle, load_bytes_per_cycle, sync_cycles;
  unsigned float_vector_width, half_vector_width;
  unsigned tiles_per_bus, link_domain;
  unsigned vertex_launch_cycles, compute_set_cycles, exchange_overhead;
  double host_bandwidth, collective_bandwidth;  // bytes/s of an IPU
};

// The chip of an architecture ("ipu2"), or null.
const Chip* FindChip(const std::string& architecture);

struct TargetData {
  TargetType type = TargetType::CPU;
  std::string architecture, system;
  unsigned ipus = 1, tiles_per_ipu = 1, workers = 1, memory_per_tile = 0;
  double clock = 0;
  Chip chip{};

  bool HasLimit() const { return type == TargetType::IPU; }
};

struct DeviceData {
  unsigned id = 0;
  Target target;
  bool attached = false;
};

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_TARGET_DATA_H_
