// Attributes of ops as text, by which equal ops are recognised.
#ifndef popart_opserialiser_hpp
#define popart_opserialiser_hpp

#include <popart/basicoptionals.hpp>
#include <popart/replicagrouping.hpp>
#include <popart/scope.hpp>
#include <popart/vendored/optional.hpp>

namespace popart {

class OpSerialiserBase {
 public:
  virtual ~OpSerialiserBase();

  void appendAttribute(const std::string &name, float value);
  void appendAttribute(const std::string &name, double value);
  void appendAttribute(const std::string &name, int value);
  void appendAttribute(const std::string &name, int64_t value);
  void appendAttribute(const std::string &name, uint32_t value);
  void appendAttribute(const std::string &name, uint64_t value);
  void appendAttribute(const std::string &name, const std::string &value);
  void appendAttribute(const std::string &name, const std::vector<float> &value);
  void appendAttribute(const std::string &name, const std::vector<double> &value);
  void appendAttribute(const std::string &name, const std::vector<int64_t> &value);
  void appendAttribute(const std::string &name, const Scope &value);
  void appendAttribute(const std::string &name, bool value);
  virtual void appendAttribute(const std::string &name, nonstd::optional<int64_t> value) = 0;
  virtual void appendAttribute(const std::string &name, nonstd::optional<float> value) = 0;
  virtual void appendAttribute(const std::string &name, nonstd::optional<double> value) = 0;
  virtual void appendAttribute(const std::string &name,
                               const std::map<TensorId, uint64_t> value) = 0;

  template <typename T, uint32_t V>
  void appendAttribute(const std::string &name, const BasicOptional<T, V> &value) {
    if (value) {
      appendAttribute(name, *value);
    } else {
      appendStrAttr(name, "?");
    }
  }
  template <typename T>
  void appendAttribute(const std::string &name, const T &value) {
    std::ostringstream text;
    text << value;
    appendStrAttr(name, text.str());
  }

  virtual void appendForwardOp(const Op *op) = 0;

 private:
  virtual void appendStrAttr(const std::string &name, const std::string &value) = 0;
};

}  // namespace popart

#endif  // popart_opserialiser_hpp
