// Reads a program for libraries from the input, runs it, and prints values.
//
//   tensor a float 2 2 3 : 1 2 3 4 5 6   a new variable of type, rank, shape and values
//   constant a ...                       the same as a constant
//   view b a transpose 1 0               an operation of Tensor
//   call c add a b                       a function of the library; `-` where there is no result
//   error add a b                        prints the error of a call
//   read a                               prints type, shape and values after the run
#ifndef TESTS_FRONTENDS_POPLAR_HARNESS_HPP_
#define TESTS_FRONTENDS_POPLAR_HARNESS_HPP_

#include <poplar/Engine.hpp>
#include <poplar/Graph.hpp>
#include <poplar/IPUModel.hpp>
#include <poplar/IeeeHalf.hpp>
#include <poplar/Program.hpp>
#include <poputil/TileMapping.hpp>
#include <poputil/exceptions.hpp>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace harness {

inline const poplar::Type &typeOf(const std::string &name) {
  static const std::map<std::string, poplar::Type> types = {{"float", poplar::FLOAT},
                                                            {"half", poplar::HALF},
                                                            {"int", poplar::INT},
                                                            {"uint", poplar::UNSIGNED_INT},
                                                            {"bool", poplar::BOOL},
                                                            {"char", poplar::CHAR},
                                                            {"uchar", poplar::UNSIGNED_CHAR},
                                                            {"short", poplar::SHORT},
                                                            {"ushort", poplar::UNSIGNED_SHORT},
                                                            {"long", poplar::LONGLONG},
                                                            {"ulong", poplar::UNSIGNED_LONGLONG}};
  return types.at(name);
}

/// Calls `f` with a number of the host for each type.
template <typename F>
void withType(const poplar::Type &type, F f) {
  if (type == poplar::FLOAT) return f(float());
  if (type == poplar::HALF) return f(poplar::IeeeHalf());
  if (type == poplar::INT) return f(int());
  if (type == poplar::UNSIGNED_INT) return f(unsigned());
  if (type == poplar::BOOL) return f(bool());
  if (type == poplar::CHAR || type == poplar::SIGNED_CHAR) return f(static_cast<signed char>(0));
  if (type == poplar::UNSIGNED_CHAR) return f(static_cast<unsigned char>(0));
  if (type == poplar::SHORT) return f(short());
  if (type == poplar::UNSIGNED_SHORT) return f(static_cast<unsigned short>(0));
  if (type == poplar::LONGLONG) return f(0LL);
  return f(0ULL);
}

/// The words of a call, in their order, with the graph and the program.
class Arguments {
 public:
  Arguments(poplar::Graph &graph, poplar::program::Sequence &prog,
            std::map<std::string, poplar::Tensor> &tensors, std::istringstream &words)
      : graph(graph), prog(prog), tensors_(tensors), words_(words) {}

  std::string word() {
    std::string result;
    if (!(words_ >> result)) {
      std::cerr << "a word is missing\n";
      std::abort();
    }
    return result;
  }
  poplar::Tensor tensor() { return named(word()); }
  double number() { return std::strtod(word().c_str(), nullptr); }
  unsigned natural() { return static_cast<unsigned>(number()); }
  poplar::Type type() { return typeOf(word()); }
  /// A count, and as many.
  template <typename T = std::size_t>
  std::vector<T> list() {
    std::vector<T> result(natural());
    for (T &value : result) value = static_cast<T>(number());
    return result;
  }
  std::vector<poplar::Tensor> tensorList() {
    std::vector<poplar::Tensor> result(natural());
    for (poplar::Tensor &tensor : result) tensor = this->tensor();
    return result;
  }
  /// The rest of the line as words.
  std::vector<std::string> rest() {
    std::vector<std::string> result;
    for (std::string word; words_ >> word;) result.push_back(word);
    return result;
  }
  bool isNumber() {
    words_ >> std::ws;
    const int c = words_.peek();
    return (c >= '0' && c <= '9') || c == '-' || c == '.';
  }
  poplar::Tensor named(const std::string &name) const {
    const auto found = tensors_.find(name);
    if (found != tensors_.end()) return found->second;
    std::cerr << "there is no tensor " << name << "\n";
    std::abort();
  }
  void name(const std::string &name, const poplar::Tensor &tensor) { tensors_[name] = tensor; }

  poplar::Graph &graph;
  poplar::program::Sequence &prog;

 private:
  std::map<std::string, poplar::Tensor> &tensors_;
  std::istringstream &words_;
};

/// Returns the result, or a tensor that is not valid where there is none.
using Function = std::function<poplar::Tensor(Arguments &)>;
using Functions = std::map<std::string, Function>;

inline poplar::Tensor viewOf(const poplar::Tensor &t, Arguments &a) {
  const std::string op = a.word();
  if (op == "shuffle") return t.dimShuffle(a.list<unsigned>());
  if (op == "reverse") return t.reverse(a.natural());
  if (op == "reshape") return t.reshape(a.list());
  if (op == "index") return t[a.natural()];
  if (op == "reinterpret") return t.reinterpret(a.type());
  if (op == "broadcast") {
    const unsigned count = a.natural();
    return t.broadcast(count, a.natural());
  }
  if (op == "slice") {
    const unsigned begin = a.natural(), end = a.natural();
    return t.slice(begin, end, a.natural());
  }
  if (op == "subsample") {
    const unsigned stride = a.natural();
    return t.subSample(stride, a.natural());
  }
  std::cerr << "there is no view " << op << "\n";
  std::abort();
}

/// A program that is made line by line.
class Session {
 public:
  explicit Session(const Functions &functions)
      : functions_(functions), device_(makeDevice()), graph_(device_.getTarget()) {}

  void read(std::istream &input) {
    for (std::string line; std::getline(input, line);) {
      std::istringstream words(line);
      Arguments a(graph_, prog_, tensors_, words);
      const std::string kind = a.word();
      if (kind == "tensor" || kind == "constant") makeTensor(kind == "constant", a);
      if (kind == "view") {
        const std::string name = a.word();
        const poplar::Tensor of = a.tensor();
        tensors_[name] = viewOf(of, a);
      }
      if (kind == "call") {
        const std::string name = a.word();
        const poplar::Tensor result = find(a.word())(a);
        if (name != "-") tensors_[name] = result;
      }
      if (kind == "error") printError(a);
      if (kind == "read") addRead(a.word());
    }
  }

  void run() {
    poplar::Engine engine(graph_, prog_);
    engine.load(device_);
    engine.run();
    for (std::size_t i = 0; i < reads_.size(); ++i) print(engine, i);
  }

 private:
  static poplar::Device makeDevice() {
    poplar::IPUModel model;
    model.tilesPerIPU = 16;
    return model.createDevice();
  }

  const Function &find(const std::string &name) const {
    const auto found = functions_.find(name);
    if (found != functions_.end()) return found->second;
    std::cerr << "there is no function " << name << "\n";
    std::abort();
  }

  void makeTensor(bool constant, Arguments &a) {
    const std::string name = a.word();
    const poplar::Type type = a.type();
    const std::vector<std::size_t> shape = a.list();
    a.word();  // the colon
    const std::vector<std::string> words = a.rest();
    withType(type, [&](auto element) {
      using T = decltype(element);
      std::vector<char> bytes(words.size() * sizeof(T) + 1);
      T *values = reinterpret_cast<T *>(bytes.data());
      for (std::size_t i = 0; i < words.size(); ++i) values[i] = parse(words[i], T());
      const poplar::ArrayRef<T> elements(values, words.size());
      poplar::Tensor tensor;
      if (constant) {
        tensor = graph_.addConstant(type, shape, elements, name);
      } else {
        tensor = graph_.addVariable(type, shape, name);
        graph_.setInitialValue(tensor, elements);
      }
      poputil::mapTensorLinearly(graph_, tensor);
      tensors_[name] = tensor;
    });
  }

  static float parse(const std::string &word, float) { return std::strtof(word.c_str(), nullptr); }
  static poplar::IeeeHalf parse(const std::string &word, poplar::IeeeHalf) {
    return poplar::IeeeHalf(std::strtof(word.c_str(), nullptr));
  }
  template <typename T>
  static T parse(const std::string &word, T) {
    return word[0] == '-' ? static_cast<T>(std::strtoll(word.c_str(), nullptr, 10))
                          : static_cast<T>(std::strtoull(word.c_str(), nullptr, 10));
  }

  void printError(Arguments &a) {
    try {
      find(a.word())(a);
      std::cout << "no error\n";
    } catch (const poputil::poplibs_error &e) {
      std::cout << e.type << ": " << e.what() << "\n";
    } catch (const poplar::poplar_error &e) {
      std::cout << e.type << ": " << e.what() << "\n";
    }
  }

  void addRead(const std::string &name) {
    const poplar::Tensor from = tensors_.at(name);
    const poplar::Tensor to = graph_.addVariable(from.elementType(), from.shape(), "read");
    graph_.setTileMapping(to, 0);
    prog_.add(poplar::program::Copy(from, to));
    graph_.createHostRead("read" + std::to_string(reads_.size()), to);
    reads_.push_back(to);
  }

  void print(poplar::Engine &engine, std::size_t index) {
    const poplar::Tensor &tensor = reads_[index];
    std::cout << tensor.elementType() << " : " << tensor.rank();
    for (const std::size_t size : tensor.shape()) std::cout << " " << size;
    std::cout << " :";
    std::cout.precision(9);
    withType(tensor.elementType(), [&](auto element) {
      using T = decltype(element);
      std::vector<char> bytes(tensor.numElements() * sizeof(T) + 1);
      engine.readTensor("read" + std::to_string(index), bytes.data(),
                        bytes.data() + bytes.size() - 1);
      const T *values = reinterpret_cast<const T *>(bytes.data());
      for (std::size_t i = 0; i < tensor.numElements(); ++i) std::cout << " " << shown(values[i]);
    });
    std::cout << "\n";
  }

  static int shown(signed char value) { return value; }
  static int shown(unsigned char value) { return value; }
  static int shown(bool value) { return value; }
  template <typename T>
  static T shown(T value) {
    return value;
  }

  const Functions &functions_;
  poplar::Device device_;
  poplar::Graph graph_;
  poplar::program::Sequence prog_;
  std::map<std::string, poplar::Tensor> tensors_;
  std::vector<poplar::Tensor> reads_;
};

inline int main(const Functions &functions) {
  Session session(functions);
  session.read(std::cin);
  session.run();
  return 0;
}

}  // namespace harness

#endif  // TESTS_FRONTENDS_POPLAR_HARNESS_HPP_
