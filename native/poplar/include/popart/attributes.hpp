// Attributes of a node by name.
#ifndef popart_attributes_hpp
#define popart_attributes_hpp

#include <popart/error.hpp>
#include <popart/names.hpp>

namespace popart {

class Attributes {
 public:
  using Ints = std::vector<int64_t>;
  using Int = int64_t;
  using Floats = std::vector<float>;
  using Float = float;
  using Strings = std::vector<std::string>;
  using String = std::string;
  using Graphs = std::vector<ONNX_NAMESPACE::GraphProto>;
  using Graph = ONNX_NAMESPACE::GraphProto;

  Attributes();
  Attributes(const Attributes &);
  Attributes(Attributes &&);
  Attributes &operator=(const Attributes &);
  ~Attributes();

  const std::vector<std::string> &getNames() const;
  bool hasAttribute(const std::string &key) const;
  void takeAttribute(const std::string &key, const Attributes &other);
  Attributes filter(const std::function<bool(const std::string &)> &keep) const;
  Attributes filter(const std::string &name) const;

  /// The value of an attribute. Types are not checked: another type than `T` reads as zero.
  template <typename T>
  T getAttribute(const std::string &key) const {
    T value = T();
    if (!read(key, value)) throw error("no attribute key {}", key);
    return value;
  }
  template <typename T>
  T getAttribute(const std::string &key, const T &defaultValue) const {
    T value = T();
    return read(key, value) ? value : defaultValue;
  }
  template <typename T>
  void set(T &value, const std::string &key) const {
    value = getAttribute<T>(key);
  }
  template <typename T>
  void setIfPresent(T &value, const std::string &key) const {
    T found = T();
    if (read(key, found)) value = found;
  }
  template <typename T>
  void setAttribute(const std::string &key, T &value) {
    write(key, value);
  }

 private:
  bool read(const std::string &key, Int &value) const;
  bool read(const std::string &key, bool &value) const;
  bool read(const std::string &key, Float &value) const;
  bool read(const std::string &key, String &value) const;
  bool read(const std::string &key, Ints &value) const;
  bool read(const std::string &key, Floats &value) const;
  bool read(const std::string &key, Strings &value) const;
  void write(const std::string &key, Int value);
  void write(const std::string &key, Float value);
  void write(const std::string &key, const String &value);
  void write(const std::string &key, const Ints &value);
  void write(const std::string &key, const Floats &value);
  void write(const std::string &key, const Strings &value);

  struct Data;
  std::unique_ptr<Data> data_;
};

}  // namespace popart

#endif  // popart_attributes_hpp
