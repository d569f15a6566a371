// Convolutions as products: elements of the input that meet a kernel are gathered into the columns
// of a matrix, a block of positions of the result at a time.
#include <algorithm>
#include <cstring>
#include <vector>

#include "poplar/core/LibraryOp.hpp"
#include "poplar/core/OpWork.hpp"
#include "poplin/product.h"
#include "poputil/float_kernel.h"

namespace poplin {
namespace {

using poputil::Attributes;
using poputil::KernelCall;

constexpr size_t kNone = ~size_t{0};
// Floats of a block of columns: it stays in the second-level cache.
constexpr size_t kBlock = size_t{1} << 17;

// One dimension of the fields: the position in the input for each position of kernel and result.
struct Dimension {
  size_t input, kernel, output;
  std::vector<size_t> meets;  // {kernel, output}, none for a zero

  size_t At(size_t k, size_t o) const { return meets[k * output + o]; }
};

// The elements that the kernel meets for all positions of the last dimension, at one of its own.
struct Row {
  size_t begin, end;  // outputs that are not zero
  size_t first;       // input of `begin`
  bool contiguous;
};

// Geometry of a convolution, from its attributes: `meets<d>` and sizes by dimension. Scalars fields
// get one dimension.
class Geometry {
 public:
  explicit Geometry(const Attributes& attributes)
      : batch(attributes.Size("batch")),
        groups(attributes.Size("groups")),
        in_channels(attributes.Size("in_channels")),
        out_channels(attributes.Size("out_channels")) {
    const std::vector<size_t> input = attributes.Sizes("field");
    const std::vector<size_t> kernel = attributes.Sizes("kernel");
    const std::vector<size_t> output = attributes.Sizes("output");
    for (size_t d = 0; d < input.size(); ++d) {
      dimensions.push_back(
          {input[d], kernel[d], output[d], attributes.Sizes("meets" + std::to_string(d))});
      for (size_t& place : dimensions[d].meets) place = place == 0 ? kNone : place - 1;
    }
    if (dimensions.empty()) dimensions.push_back({1, 1, 1, {0}});
    for (const Dimension& dimension : dimensions) {
      input_size *= dimension.input;
      kernel_size *= dimension.kernel;
      output_size *= dimension.output;
    }
    const Dimension& last = dimensions.back();
    width = last.output;
    rows = width == 0 ? 0 : output_size / width;
    for (size_t k = 0; k < last.kernel; ++k) last_rows.push_back(RowOf(last, k));
    depth = in_channels * kernel_size;
  }

  // Whether each position of the result reads the same position of the input and no other.
  bool pointwise() const {
    if (kernel_size != 1 || input_size != output_size) return false;
    for (const Dimension& dimension : dimensions) {
      for (size_t o = 0; o < dimension.output; ++o) {
        if (dimension.At(0, o) != o) return false;
      }
    }
    return true;
  }

  // Rows of the result in a block.
  size_t block_rows() const {
    return std::max<size_t>(1, kBlock / std::max<size_t>(1, depth * width));
  }

  // Gathers line `line` (channel and position of the kernel) of the columns for rows of the result.
  void Gather(const float* input, size_t line, size_t begin, size_t end, float* columns) const {
    const float* channel = input + line / kernel_size * input_size;
    std::vector<size_t> kernel(dimensions.size());
    size_t rest = line % kernel_size;
    for (size_t d = dimensions.size(); d-- > 0; rest /= dimensions[d].kernel) {
      kernel[d] = rest % dimensions[d].kernel;
    }
    for (size_t row = begin; row < end; ++row, columns += width) {
      const size_t start = InputRow(kernel, row);
      if (start == kNone) {
        std::fill(columns, columns + width, 0.0f);
      } else {
        GatherRow(channel + start, kernel.back(), columns);
      }
    }
  }

  const size_t batch, groups, in_channels, out_channels;
  std::vector<Dimension> dimensions;
  std::vector<Row> last_rows;  // by position of the kernel
  size_t input_size = 1, kernel_size = 1, output_size = 1;
  size_t rows = 0, width = 0;  // of the result: all dimensions but the last, and the last
  size_t depth = 0;            // lines of the columns

 private:
  static Row RowOf(const Dimension& dimension, size_t k) {
    Row row{0, 0, 0, true};
    for (size_t o = 0; o < dimension.output; ++o) {
      const size_t place = dimension.At(k, o);
      if (place == kNone) continue;
      if (row.end == 0) {
        row.begin = o;
        row.first = place;
      }
      row.contiguous = row.contiguous && place - row.first == o - row.begin;
      row.end = o + 1;
    }
    // Zeros in between make it not contiguous, too.
    for (size_t o = row.begin; o < row.end; ++o) {
      row.contiguous = row.contiguous && dimension.At(k, o) != kNone;
    }
    return row;
  }

  // The offset of the input's row for a row of the result, or none if it is of zeros.
  size_t InputRow(const std::vector<size_t>& kernel, size_t row) const {
    size_t offset = 0, scale = dimensions.back().input;
    for (size_t d = dimensions.size() - 1; d-- > 0;) {
      const Dimension& dimension = dimensions[d];
      const size_t place = dimension.At(kernel[d], row % dimension.output);
      if (place == kNone) return kNone;
      row /= dimension.output;
      offset += place * scale;
      scale *= dimension.input;
    }
    return offset;
  }

  void GatherRow(const float* input, size_t k, float* columns) const {
    const Row& row = last_rows[k];
    if (row.contiguous) {
      std::fill(columns, columns + row.begin, 0.0f);
      std::memcpy(columns + row.begin, input + row.first, (row.end - row.begin) * sizeof(float));
      std::fill(columns + row.end, columns + width, 0.0f);
      return;
    }
    const size_t* places = dimensions.back().meets.data() + k * width;
    for (size_t o = 0; o < width; ++o) columns[o] = places[o] == kNone ? 0.0f : input[places[o]];
  }
};

// Weights {groups, out, in, kernel} of weights {groups, in, out, kernel} with a reversed kernel.
std::vector<float> Transposed(const float* weights, const Geometry& g) {
  std::vector<float> result(g.groups * g.out_channels * g.depth);
  const size_t kernel = g.kernel_size;
  for (size_t group = 0; group < g.groups; ++group) {
    for (size_t o = 0; o < g.out_channels; ++o) {
      for (size_t i = 0; i < g.in_channels; ++i) {
        const float* from = weights + ((group * g.in_channels + i) * g.out_channels + o) * kernel;
        float* to = result.data() + ((group * g.out_channels + o) * g.in_channels + i) * kernel;
        std::reverse_copy(from, from + kernel, to);
      }
    }
  }
  return result;
}

// One image and group.
struct Slice {
  const float* input;
  const float* weights;
  float* output;
};

void ConvolveRows(const Geometry& g, const Slice& slice, size_t begin, size_t end) {
  static thread_local std::vector<float> columns;
  const size_t count = (end - begin) * g.width;
  columns.resize(g.depth * count);
  for (size_t line = 0; line < g.depth; ++line) {
    g.Gather(slice.input, line, begin, end, columns.data() + line * count);
  }
  Multiply({g.out_channels,
            count,
            g.depth,
            {slice.weights, g.depth},
            {columns.data(), count},
            slice.output + begin * g.width,
            g.output_size});
}

void ConvolveBlock(const Geometry& g, const Slice& slice, size_t begin, size_t end,
                   bool pointwise) {
  if (!pointwise) return ConvolveRows(g, slice, begin, end);
  const size_t offset = begin * g.width, count = (end - begin) * g.width;
  Multiply({g.out_channels,
            count,
            g.depth,
            {slice.weights, g.depth},
            {slice.input + offset, g.input_size},
            slice.output + offset,
            g.output_size});
}

void Convolution(const KernelCall& call) {
  const Geometry g(call.attributes);
  std::vector<float> transposed;
  const float* weights = call.in(1);
  if (call.attributes.Bool("transposed")) {
    transposed = Transposed(weights, g);
    weights = transposed.data();
  }
  const bool pointwise = g.pointwise();
  const size_t block = g.block_rows();
  const size_t blocks = (g.rows + block - 1) / block;
  poplar::core::parallelFor(g.batch * g.groups * blocks, 1, [&](size_t begin, size_t end) {
    for (size_t task = begin; task < end; ++task) {
      const size_t image = task / blocks, first = task % blocks * block;
      const Slice slice{call.in(0) + image * g.in_channels * g.input_size,
                        weights + image % g.groups * g.out_channels * g.depth,
                        call.out(0) + image * g.out_channels * g.output_size};
      ConvolveBlock(g, slice, first, std::min(g.rows, first + block), pointwise);
    }
  });
}

const poputil::FloatKernelRegistration kConvolution("poplin::convolution", Convolution);

// weights {groups, out, in, kernel} (+)= factor * deltas * columns, summed over images and blocks
// in their order: results do not depend on the number of cores.
void WeightDeltas(const KernelCall& call) {
  const Geometry g(call.attributes);
  float factor = call.attributes.Float("factor");
  if (call.inputs.size() > 2) factor *= call.in(2)[0];
  if (!call.attributes.Bool("accumulate")) {
    std::fill(call.out(0), call.out(0) + call.OutSize(0), 0.0f);
  }
  const size_t block = g.block_rows();
  std::vector<float> columns(g.depth * std::min(block, g.rows) * g.width);
  for (size_t image = 0; image < g.batch * g.groups; ++image) {
    const float* input = call.in(1) + image * g.in_channels * g.input_size;
    const float* deltas = call.in(0) + image * g.out_channels * g.output_size;
    for (size_t first = 0; first < g.rows; first += block) {
      const size_t end = std::min(g.rows, first + block), count = (end - first) * g.width;
      poplar::core::parallelFor(g.depth, 8, [&](size_t from, size_t to) {
        for (size_t line = from; line < to; ++line) {
          g.Gather(input, line, first, end, columns.data() + line * count);
        }
      });
      Product product{g.out_channels,
                      g.depth,
                      count,
                      {deltas + first * g.width, g.output_size},
                      {columns.data(), count, true},
                      call.out(0) + image % g.groups * g.out_channels * g.depth,
                      g.depth};
      product.factor = factor;
      product.accumulate = true;
      MultiplyParallel(product);
    }
  }
}

const poputil::FloatKernelRegistration kDeltas("poplin::convolutionWeightDeltas", WeightDeltas);

poplar::core::MatrixWork WorkOfConvolution(const poplar::core::KernelSpec& spec) {
  const Geometry g{poputil::Attributes(spec.parameters)};
  return {1, g.groups, g.batch * g.output_size, g.depth, g.out_channels};
}

poplar::core::MatrixWork WorkOfDeltas(const poplar::core::KernelSpec& spec) {
  const poplar::core::MatrixWork forward = WorkOfConvolution(spec);
  return {1, forward.groups, forward.columns, forward.rows, forward.inner};
}

const poplar::core::WorkRegistration kConvolutionWork("poplin::convolution", WorkOfConvolution);
const poplar::core::WorkRegistration kDeltasWork("poplin::convolutionWeightDeltas", WorkOfDeltas);

// out {batch, channels, elements} += biases {channels}
void AddBias(const KernelCall& call) {
  const size_t channels = call.OutShape(0)[1], elements = call.OutShape(0)[2];
  poplar::core::parallelFor(call.OutShape(0)[0] * channels, 16, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      float* out = call.out(0) + row * elements;
      const float bias = call.in(0)[row % channels];
      for (size_t i = 0; i < elements; ++i) out[i] += bias;
    }
  });
}

const poputil::FloatKernelRegistration kAddBias("poplin::addBias", AddBias);

// biases {channels} += factor * sums of deltas {batch, channels, elements}
void UpdateBias(const KernelCall& call) {
  const std::vector<size_t>& shape = call.InShape(0);
  float factor = call.attributes.Float("factor");
  if (call.inputs.size() > 1) factor *= call.in(1)[0];
  poplar::core::parallelFor(shape[1], 4, [&](size_t begin, size_t end) {
    for (size_t channel = begin; channel < end; ++channel) {
      double sum = 0;
      for (size_t image = 0; image < shape[0]; ++image) {
        const float* deltas = call.in(0) + (image * shape[1] + channel) * shape[2];
        for (size_t i = 0; i < shape[2]; ++i) sum += deltas[i];
      }
      call.out(0)[channel] += factor * static_cast<float>(sum);
    }
  });
}

const poputil::FloatKernelRegistration kUpdateBias("poplin::convolutionBiasUpdate", UpdateBias);

}  // namespace
}  // namespace poplin
