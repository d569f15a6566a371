// Graphs and tensors in files.
#include <istream>
#include <iterator>
#include <ostream>
#include <string>
#include <vector>

#include "access.h"
#include "graph_data.h"
#include "poplar/Graph.hpp"
#include "poplar/MetadataCreation.hpp"
#include "poplar/Quarter.hpp"
#include "poplar/TypeConversion.hpp"
#include "poplar/VectorLayout.hpp"
#include "poplar/core/Json.hpp"
#include "poplar/exceptions.hpp"
#include "types.h"

namespace poplar {

using core::Access;
using Map = ProfileValue::Map;
using Vector = ProfileValue::Vector;

namespace {

ProfileValue TensorValue(const Graph& graph, const Tensor& tensor) {
  Vector shape, tiles;
  for (const size_t size : tensor.shape()) shape.push_back(size);
  const Graph::TileToTensorMapping mapping = graph.getTileMapping(tensor, false);
  for (size_t tile = 0; tile < mapping.size(); ++tile) {
    for (const Interval& interval : mapping[tile]) {
      tiles.push_back(Vector{tile, interval.begin(), interval.end()});
    }
  }
  return Map{{"name", tensor.getDebugStr()},
             {"type", tensor.elementType().toString()},
             {"shape", shape},
             {"tiles", tiles}};
}

Tensor TensorOf(Graph* graph, const ProfileValue& value) {
  std::vector<size_t> shape;
  for (const uint64_t size : value["shape"].toUintVector()) shape.push_back(size);
  const std::string name = value["type"].asString();
  Type type;
  for (unsigned id = 1; id <= static_cast<unsigned>(core::Id::kQuarterMetadata); ++id) {
    if (Type(id).toString().cloneAsString() == name) type = Type(id);
  }
  const Tensor tensor = graph->addVariable(type, shape, value["name"].asString());
  const Tensor flat = tensor.flatten();
  for (const ProfileValue& part : value["tiles"].asVector()) {
    graph->setTileMapping(flat.slice(part[1].asUint(), part[2].asUint()),
                          static_cast<unsigned>(part[0].asUint()));
  }
  return tensor;
}

}  // namespace

void Graph::serialize(std::ostream& os, SerializationFormat format) const {
  serialize(os, {}, format);
}

void Graph::serialize(std::ostream& os, ArrayRef<program::Program> programs,
                      SerializationFormat) const {
  Vector variables, sets;
  for (uint32_t v = 0; v < data_->variables.size(); ++v) {
    variables.push_back(TensorValue(*this, getVariable(VariableRef(v))));
  }
  for (const core::ComputeSetData& set : data_->compute_sets) {
    Vector vertices;
    for (const uint32_t number : set.vertices) {
      const core::Vertex& vertex = data_->vertices[number];
      vertices.push_back(Map{{"type", vertex.type->name}, {"tile", vertex.tile}});
    }
    sets.push_back(Map{{"name", set.name}, {"vertices", vertices}});
  }
  os << core::toJson(
      Map{{"variables", variables}, {"computeSets", sets}, {"numPrograms", programs.size()}});
}

void Graph::serializeTensors(std::ostream& os, ArrayRef<Tensor> tensors,
                             SerializationFormat) const {
  Vector values;
  for (const Tensor& tensor : tensors) values.push_back(TensorValue(*this, tensor));
  os << core::toJson(values);
}

std::vector<Tensor> Graph::deserializeTensors(std::istream& is, SerializationFormat) {
  const std::string text((std::istreambuf_iterator<char>(is)), std::istreambuf_iterator<char>());
  std::vector<Tensor> tensors;
  const ProfileValue values = core::parseJson(text);
  for (const ProfileValue& value : values.asVector()) tensors.push_back(TensorOf(this, value));
  return tensors;
}

void core::convert(const Type& from, const void* source, const Type& to, void* target,
                   size_t count) {
  Convert(from, source, to, target, count);
}

Tensor createVariableMetadataTensor(Graph& graph, QuarterMetadata::Format format, int scale,
                                    const DebugContext& debugContext) {
  const Tensor tensor = graph.addVariable(QUARTER_METADATA, {}, debugContext);
  graph.setTileMapping(tensor, 0);
  graph.setInitialValue(tensor, QuarterMetadata(format, scale).getBinary());
  return tensor;
}

Tensor createConstantMetadataTensor(Graph& graph, QuarterMetadata::Format format, int scale,
                                    const DebugContext& debugContext) {
  const Tensor tensor = graph.addConstant(QUARTER_METADATA, {},
                                          QuarterMetadata(format, scale).getBinary(), debugContext);
  graph.setTileMapping(tensor, 0);
  return tensor;
}

namespace layout {

std::string to_string(Vector layout) {
  const char* const names[] = {"NotAVector",  "Span",        "ShortSpan",   "OnePtr",
                               "ScaledPtr32", "ScaledPtr64", "ScaledPtr128"};
  return names[static_cast<int>(layout)];
}

std::string to_string(VectorList layout) {
  const char* const names[] = {"NotAVector",   "OnePtr", "ScaledPtr32",   "ScaledPtr64",
                               "ScaledPtr128", "DeltaN", "DeltaNElements"};
  return names[static_cast<int>(layout)];
}

std::ostream& operator<<(std::ostream& os, Vector layout) { return os << to_string(layout); }
std::ostream& operator<<(std::ostream& os, VectorList layout) { return os << to_string(layout); }

}  // namespace layout
}  // namespace poplar
