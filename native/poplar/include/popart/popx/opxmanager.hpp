// The registry of lowerings.
#ifndef popart_popx_opxmanager_hpp
#define popart_popx_opxmanager_hpp

#include <popart/popx/opx.hpp>

namespace popart {
namespace popx {

using OpxFactoryFunc = std::function<std::unique_ptr<Opx>(Op *op, Devicex *device)>;

/// Factories of lowerings by identifier. The first that is registered stays.
class OpxManager {
 public:
  static void registerOpx(const OperatorIdentifier &opid, OpxFactoryFunc factory);
  /// Null if there is none.
  static std::unique_ptr<Opx> createOpx(Op *op, Devicex *device);
};

/// Registers the lowering of ops: a static object of the library that has it.
template <class OPX>
class OpxCreator {
 public:
  OpxCreator(const OperatorIdentifier &opid) { registerOpx(opid, make()); }
  OpxCreator(const OperatorIdentifier &opid, std::string errorMessage) {
    registerOpx(opid, refusing(errorMessage));
  }
  OpxCreator(const OperatorIdentifier &opid, OpxFactoryFunc factory) { registerOpx(opid, factory); }
  OpxCreator(const std::vector<OperatorIdentifier> &opids) {
    for (const OperatorIdentifier &opid : opids) registerOpx(opid, make());
  }
  OpxCreator(const std::vector<OperatorIdentifier> &opids, std::string errorMessage) {
    for (const OperatorIdentifier &opid : opids) registerOpx(opid, refusing(errorMessage));
  }
  OpxCreator(const std::vector<OperatorIdentifier> &opids, OpxFactoryFunc factory) {
    for (const OperatorIdentifier &opid : opids) registerOpx(opid, factory);
  }

 private:
  static OpxFactoryFunc make() {
    return [](Op *op, Devicex *device) { return std::unique_ptr<Opx>(new OPX(op, device)); };
  }
  static OpxFactoryFunc refusing(const std::string &message) {
    return [message](Op *, Devicex *) -> std::unique_ptr<Opx> { throw error(message); };
  }
  static void registerOpx(const OperatorIdentifier &opid, OpxFactoryFunc factory) {
    OpxManager::registerOpx(opid, factory);
  }
};

}  // namespace popx
}  // namespace popart

#endif  // popart_popx_opxmanager_hpp
