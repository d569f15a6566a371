// What recurrent layers share: kernels' sizes and functions, and checks of their calls.
#ifndef TENSORFLOW_IPU_POPNN_RECURRENT_H_
#define TENSORFLOW_IPU_POPNN_RECURRENT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "poplar/core/OpWork.hpp"
#include "poplin/product.h"
#include "popnn/NonLinearityDef.hpp"
#include "popnn/Rnn.hpp"
#include "popnn/activation_functions.h"
#include "poputil/call_site.h"
#include "poputil/float_kernel.h"

namespace popnn {

using Function = float (*)(float);

// A non-linearity whose derivative is one of its result.
struct Activation {
  explicit Activation(int64_t type) {
    WithFunction(static_cast<NonLinearityType>(type), [this](auto function) {
      value = &function.Value;
      derivative = &function.Derivative;
    });
  }

  Function value = nullptr, derivative = nullptr;
};

// Sizes of a layer, and the functions of its cell.
struct Cell {
  explicit Cell(const poputil::Attributes& attributes)
      : steps(attributes.Size("steps")),
        batch(attributes.Size("batch")),
        input(attributes.Size("input")),
        hidden(attributes.Size("hidden")),
        state(batch * hidden),
        output(attributes.Int("activation")),
        gate(attributes.Int("gate_activation")) {
    const std::vector<size_t> order = attributes.Sizes("order");
    slots.resize(order.size());
    for (size_t slot = 0; slot < order.size(); ++slot) slots[order[slot]] = slot;
  }

  size_t steps, batch, input, hidden;
  size_t state;  // elements of a state {batch, hidden}
  Activation output, gate;
  std::vector<size_t> slots;  // place of each unit's weights
};

// out {batch, columns} (+)= x {batch, rows} * weights {rows, columns}
inline void MultiplyWeights(const float* x, const float* weights, size_t batch, size_t rows,
                            size_t columns, bool accumulate, float* out) {
  poplin::Product product{batch, columns, rows, {x, rows}, {weights, columns}, out, columns};
  product.accumulate = accumulate;
  poplin::MultiplyParallel(product);
}

// out {batch, rows} += gradients {batch, columns} * weights'
inline void MultiplyTransposed(const float* gradients, const float* weights, size_t batch,
                               size_t rows, size_t columns, float* out) {
  poplin::Product product{batch, rows, columns, {gradients, columns}, {weights, columns, true},
                          out,   rows};
  product.accumulate = true;
  poplin::MultiplyParallel(product);
}

// out {rows, columns} += x' {batch, rows} * gradients {batch, columns}
inline void AddWeightGradient(const float* x, const float* gradients, size_t batch, size_t rows,
                              size_t columns, float* out) {
  poplin::Product product{rows, columns, batch, {x, rows, true}, {gradients, columns},
                          out,  columns};
  product.accumulate = true;
  poplin::MultiplyParallel(product);
}

// out {columns} += sums of rows {batch, columns}
inline void AddRows(const float* rows, size_t batch, size_t columns, float* out) {
  for (size_t i = 0; i < batch * columns; ++i) out[i % columns] += rows[i];
}

// The products of a layer's kernels: forward, backward, and of the gradients of weights.
poplar::core::MatrixWork ForwardWork(const poplar::core::KernelSpec& spec);
poplar::core::MatrixWork BackwardWork(const poplar::core::KernelSpec& spec);
poplar::core::MatrixWork WeightWork(const poplar::core::KernelSpec& spec);

// ---- calls

// Throws for options that no recurrent layer has.
void CheckRecurrentOptions(const char* function, const poplar::OptionFlags& options);
// Throws for non-linearities whose derivative is one of the input.
void CheckActivation(const poputil::CallSite& site, NonLinearityType type);
// Throws for parameters that do not run: steps that vary, inputs that are weighted already, and
// non-linearities whose derivative is one of the input.
void CheckLayer(const poputil::CallSite& site, const rnn::RnnParams& params, bool weighs_input,
                NonLinearityType activation, NonLinearityType gate_activation);

template <typename Params>
poputil::Attributes CellAttributes(const Params& params) {
  std::vector<int> order(params.cellOrder.begin(), params.cellOrder.end());
  return poputil::Attributes()
      .Set("steps", params.rnn.timeSteps)
      .Set("batch", params.rnn.batchSize)
      .Set("input", params.rnn.layerSizes[0])
      .Set("hidden", params.rnn.layerSizes[1])
      .Set("activation", static_cast<int>(params.activation))
      .Set("gate_activation", static_cast<int>(params.recurrentActivation))
      .Set("order", order)
      .Set("full", params.outputFullSequence);
}

// A checked call of a layer.
template <typename Params>
poputil::CallSite LayerSite(const char* function, poplar::Graph& graph, const Params& params,
                            const poplar::DebugContext& debug, const poplar::OptionFlags& options) {
  CheckRecurrentOptions(function, options);
  poputil::CallSite site(function, graph, debug);
  CheckLayer(site, params.rnn, params.doInputWeightCalc, params.activation,
             params.recurrentActivation);
  return site;
}

// Shapes of a layer's tensors.
template <typename Params>
std::vector<size_t> SequenceShape(const Params& params, size_t size) {
  return {params.rnn.timeSteps, params.rnn.batchSize, size};
}
template <typename Params>
std::vector<size_t> StateShape(const Params& params) {
  return {params.rnn.batchSize, params.rnn.layerSizes[1]};
}
template <typename Params>
std::vector<size_t> OutputShape(const Params& params) {
  if (params.outputFullSequence) return SequenceShape(params, params.rnn.layerSizes[1]);
  return StateShape(params);
}

// Products of a layer with weights for `units` units, of input and state.
uint64_t LayerProducts(const rnn::RnnParams& params, size_t units);

}  // namespace popnn

#endif  // TENSORFLOW_IPU_POPNN_RECURRENT_H_
