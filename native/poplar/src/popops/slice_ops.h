// Parameters of slices and updates.
#ifndef TENSORFLOW_IPU_POPOPS_SLICE_OPS_H_
#define TENSORFLOW_IPU_POPOPS_SLICE_OPS_H_

#include <string>
#include <vector>

#include "popops/ops.h"

namespace popops {

// What happens to elements that are written.
enum class SliceUpdate { kNone, kAdd, kMax, kMul };

struct SliceParameters {
  SliceParameters() = default;
  explicit SliceParameters(const std::string& text) {
    ParameterReader reader(text);
    dims = reader.List();
    sizes = reader.List();
    grouped = reader.Next<bool>();
    update = static_cast<SliceUpdate>(reader.Next<int>());
    pads = reader.Next<bool>();
    remaps = reader.Next<bool>();
  }
  std::string text() const {
    return ParameterWriter()
        .Add(dims)
        .Add(sizes)
        .Add(grouped)
        .Add(static_cast<int>(update))
        .Add(pads)
        .Add(remaps)
        .text();
  }

  // Of one table.
  std::vector<size_t> dims, sizes;
  // Whether dimension 0 of all tensors is that of tables.
  bool grouped = false;
  SliceUpdate update = SliceUpdate::kNone;
  // An offset at the end of the table gives zeros.
  bool pads = false;
  // An offset beyond counts as 0.
  bool remaps = false;
};

}  // namespace popops

#endif  // TENSORFLOW_IPU_POPOPS_SLICE_OPS_H_
