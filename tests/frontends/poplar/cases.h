// Programs of tests: a case reads named tensors from the input, and writes named results.
//
// A line of the input is `tensor NAME TYPE SHAPE VALUES...` or `value NAME WORDS...`; a shape is
// `2,3`, or `-` for a scalar. A line of the output is as that of a tensor, or `error CLASS TEXT`.
#ifndef TESTS_FRONTENDS_POPLAR_CASES_H_
#define TESTS_FRONTENDS_POPLAR_CASES_H_

#include <poplar/DeviceManager.hpp>
#include <poplar/Engine.hpp>
#include <poplar/IPUModel.hpp>
#include <poplar/IeeeHalf.hpp>
#include <poplar/exceptions.hpp>
#include <poputil/TileMapping.hpp>
#include <poputil/exceptions.hpp>

#include <cstdint>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

class Case {
 public:
  Case() : device(poplar::IPUModel().createDevice()), graph(device.getTarget()) { readInput(); }

  bool has(const std::string &name) const { return tensors_.count(name) + values_.count(name) > 0; }

  // A variable with the values of the input.
  poplar::Tensor in(const std::string &name) {
    const Line &line = tensors_.at(name);
    const poplar::Tensor tensor = graph.addVariable(line.type, line.shape, name);
    poputil::mapTensorLinearly(graph, tensor);
    set(name, tensor);
    return tensor;
  }

  // Sets a tensor that the case has made to values of the input.
  void set(const std::string &name, const poplar::Tensor &tensor) {
    graph.createHostWrite("in_" + name, tensor);
    writes_.push_back(name);
  }

  void out(const std::string &name, const poplar::Tensor &tensor) {
    graph.createHostRead("out_" + name, tensor);
    reads_.push_back(std::make_pair(name, tensor));
  }

  // A number that is known without running the program.
  void note(const std::string &name, double value) { notes_[name] = value; }

  std::string word(const std::string &name) const { return values_.at(name); }
  double number(const std::string &name) const { return std::strtod(word(name).c_str(), nullptr); }
  bool flag(const std::string &name) const { return has(name) && word(name) == "1"; }
  template <typename T = std::size_t>
  std::vector<T> list(const std::string &name) const {
    std::istringstream stream(values_.at(name));
    std::vector<T> result;
    for (T value; stream >> value;) result.push_back(value);
    return result;
  }
  poplar::Type type(const std::string &name) const { return typeOf(word(name)); }

  void run() {
    poplar::Engine engine(graph, prog);
    engine.load(device);
    for (const std::string &name : writes_) write(engine, tensors_.at(name), "in_" + name);
    const int times = has("times") ? static_cast<int>(number("times")) : 1;
    for (int i = 0; i < times; ++i) engine.run();
    for (const std::pair<std::string, poplar::Tensor> &read : reads_) print(engine, read);
    for (const std::pair<const std::string, double> &note : notes_) {
      std::cout << "tensor " << note.first << " float - " << std::setprecision(9) << note.second
                << "\n";
    }
  }

  poplar::Device device;
  poplar::Graph graph;
  poplar::program::Sequence prog;

 private:
  struct Line {
    poplar::Type type;
    std::vector<std::size_t> shape;
    std::vector<double> values;
  };

  static poplar::Type typeOf(const std::string &name) {
    const std::map<std::string, poplar::Type> types = {{"float", poplar::FLOAT},
                                                       {"half", poplar::HALF},
                                                       {"int", poplar::INT},
                                                       {"unsigned int", poplar::UNSIGNED_INT},
                                                       {"bool", poplar::BOOL}};
    return types.at(name);
  }

  static std::string shapeText(const std::vector<std::size_t> &shape) {
    std::string text;
    for (std::size_t size : shape) text += (text.empty() ? "" : ",") + std::to_string(size);
    return text.empty() ? "-" : text;
  }

  void readInput() {
    std::string text;
    while (std::getline(std::cin, text)) {
      if (text.empty()) continue;
      std::istringstream stream(text);
      std::string kind, name;
      stream >> kind >> name;
      if (kind == "value") {
        std::getline(stream >> std::ws, values_[name]);
        continue;
      }
      std::string type, shape, size;
      stream >> type >> shape;
      if (type == "unsigned") type = "unsigned int";
      Line line;
      line.type = typeOf(type);
      std::istringstream sizes(shape == "-" ? "" : shape);
      while (std::getline(sizes, size, ',')) line.shape.push_back(std::stoul(size));
      for (std::string value; stream >> value;) {
        line.values.push_back(std::strtod(value.c_str(), nullptr));
      }
      tensors_[name] = line;
    }
  }

  template <typename T>
  static void writeAs(poplar::Engine &engine, const Line &line, const std::string &handle) {
    std::vector<T> values;
    for (double value : line.values) values.push_back(T(value));
    engine.writeTensor(handle, values.data(), values.data() + values.size());
  }

  static void write(poplar::Engine &engine, const Line &line, const std::string &handle) {
    if (line.type == poplar::FLOAT) return writeAs<float>(engine, line, handle);
    if (line.type == poplar::INT) return writeAs<int>(engine, line, handle);
    if (line.type == poplar::UNSIGNED_INT) return writeAs<unsigned>(engine, line, handle);
    if (line.type == poplar::HALF) {
      std::vector<std::uint16_t> bits;
      for (double value : line.values) {
        bits.push_back(poplar::IeeeHalf(static_cast<float>(value)).bits());
      }
      return engine.writeTensor(handle, bits.data(), bits.data() + bits.size());
    }
    writeAs<unsigned char>(engine, line, handle);
  }

  template <typename T>
  static std::vector<T> values(poplar::Engine &engine, const std::string &handle,
                               std::size_t count) {
    std::vector<T> result(count);
    engine.readTensor(handle, result.data(), result.data() + count);
    return result;
  }

  static void print(poplar::Engine &engine, const std::pair<std::string, poplar::Tensor> &read) {
    const poplar::Tensor &tensor = read.second;
    const std::string handle = "out_" + read.first;
    const std::size_t count = tensor.numElements();
    std::string type = tensor.elementType().toString();
    if (type == "unsigned int") type = "unsigned";
    std::cout << "tensor " << read.first << " " << type << " " << shapeText(tensor.shape())
              << std::setprecision(9);
    if (tensor.elementType() == poplar::FLOAT) {
      for (float value : values<float>(engine, handle, count)) std::cout << " " << value;
    } else if (tensor.elementType() == poplar::INT) {
      for (int value : values<int>(engine, handle, count)) std::cout << " " << value;
    } else if (tensor.elementType() == poplar::UNSIGNED_INT) {
      for (unsigned value : values<unsigned>(engine, handle, count)) std::cout << " " << value;
    } else if (tensor.elementType() == poplar::HALF) {
      for (std::uint16_t bits : values<std::uint16_t>(engine, handle, count)) {
        std::cout << " " << static_cast<float>(poplar::IeeeHalf::fromBits(bits));
      }
    } else {
      for (unsigned char value : values<unsigned char>(engine, handle, count)) {
        std::cout << " " << static_cast<int>(value);
      }
    }
    std::cout << "\n";
  }

  std::map<std::string, Line> tensors_;
  std::map<std::string, std::string> values_;
  std::map<std::string, double> notes_;
  std::vector<std::string> writes_;
  std::vector<std::pair<std::string, poplar::Tensor>> reads_;
};

using Cases = std::map<std::string, void (*)(Case &)>;

// Runs the case that the argument names.
inline int runCase(int argc, char **argv, const Cases &cases) {
  if (argc != 2 || cases.count(argv[1]) == 0) {
    std::cerr << "the argument names a case; there is no '" << (argc > 1 ? argv[1] : "") << "'\n";
    return 1;
  }
  try {
    Case c;
    cases.at(argv[1])(c);
    c.run();
  } catch (const poputil::poplibs_error &error) {
    std::cout << "error " << error.type << " " << error.what() << "\n";
  } catch (const poplar::poplar_error &error) {
    std::cout << "error " << error.type << " " << error.what() << "\n";
  }
  return 0;
}

#endif  // TESTS_FRONTENDS_POPLAR_CASES_H_
