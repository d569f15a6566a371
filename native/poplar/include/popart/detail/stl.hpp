// The standard headers that files of operations rely on without including them.
#ifndef popart_detail_stl_hpp
#define popart_detail_stl_hpp

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <ostream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#ifndef ONNX_NAMESPACE
#define ONNX_NAMESPACE onnx
#endif

namespace ONNX_NAMESPACE {
class AttributeProto;
class GraphProto;
class ModelProto;
class NodeProto;
class TensorProto;
class TypeProto;
}  // namespace ONNX_NAMESPACE

#endif  // popart_detail_stl_hpp
