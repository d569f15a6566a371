// Which tensors come back to the host, and how often.
#ifndef popart_dataflow_hpp
#define popart_dataflow_hpp

#include <popart/names.hpp>

namespace popart {

enum class AnchorReturnTypeId { Final = 0, EveryN, All, Sum };

class AnchorReturnType {
 public:
  AnchorReturnType() {}
  AnchorReturnType(std::string type) : type_(std::move(type)) {}
  AnchorReturnType(std::string type, int period) : type_(std::move(type)), period_(period) {}
  const std::string &str() const { return type_; }
  int rp() const { return period_; }

 private:
  std::string type_ = "All";
  int period_ = 1;
};

using AnchorReturnTypeMap = std::map<TensorId, AnchorReturnType>;

class DataFlow {
 public:
  DataFlow() {}
  explicit DataFlow(int batchesPerStep) : batchesPerStep_(batchesPerStep) {}
  DataFlow(int batchesPerStep, const AnchorReturnTypeMap &anchors)
      : batchesPerStep_(batchesPerStep), anchors_(anchors) {}
  int batchesPerStep() const { return batchesPerStep_; }
  bool isAnchored(const TensorId &id) const { return anchors_.count(id) != 0; }
  const AnchorReturnTypeMap &getAnchorReturnTypeMap() const { return anchors_; }

 private:
  int batchesPerStep_ = 1;
  AnchorReturnTypeMap anchors_;
};

}  // namespace popart

#endif  // popart_dataflow_hpp
