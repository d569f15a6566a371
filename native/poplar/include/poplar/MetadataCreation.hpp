// Tensors with the metadata of quarters.
#ifndef poplar_MetadataCreation_hpp
#define poplar_MetadataCreation_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Quarter.hpp>
#include <poplar/Tensor.hpp>

namespace poplar {

Tensor createVariableMetadataTensor(Graph &graph, QuarterMetadata::Format format, int scale,
                                    const DebugContext &debugContext = {});
Tensor createConstantMetadataTensor(Graph &graph, QuarterMetadata::Format format, int scale,
                                    const DebugContext &debugContext = {});

}  // namespace poplar

#endif  // poplar_MetadataCreation_hpp
