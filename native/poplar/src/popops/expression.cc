// Nodes of expressions: copies, comparison and text.
#include <cstdio>

#include "popops/Expr.hpp"

namespace popops::expr {

using poplar::Tensor;

#define CASE(OP, NODE, FUNCTION) \
  case Enum::OP:                 \
    return #OP;

std::string toString(UnaryOpType op) {
  using Enum = UnaryOpType;
  switch (op) {
    POPOPS_UNARY_OPS(CASE)
    POPOPS_UNARY_PREDICATES(CASE)
    CASE(RELU, Relu, relu)
  }
  return "";
}

std::string toString(BinaryOpType op) {
  using Enum = BinaryOpType;
  switch (op) { POPOPS_BINARY_OPS(CASE) }
  return "";
}

std::string toString(TernaryOpType op) {
  using Enum = TernaryOpType;
  switch (op) { POPOPS_TERNARY_OPS(CASE) }
  return "";
}
#undef CASE

namespace {

// A line of a tree, or the same within parentheses.
void Print(std::ostream& os, unsigned indent, bool pretty, const std::string& text,
           std::initializer_list<const Expr*> arguments) {
  if (pretty) {
    os << std::string(2 * indent, ' ') << text << "\n";
    for (const Expr* argument : arguments) argument->print(os, indent + 1, true);
    return;
  }
  os << text;
  if (arguments.size() == 0) return;
  os << "(";
  bool first = true;
  for (const Expr* argument : arguments) {
    if (!first) os << ", ";
    first = false;
    argument->print(os, 0, false);
  }
  os << ")";
}

std::string Name(const poplar::Type& type) {
  std::string name = type.toString().cloneAsString();
  for (char& c : name) c = c == ' ' ? '_' : c;
  return name;
}

}  // namespace

std::unique_ptr<Expr> Const::clone() const { return std::unique_ptr<Expr>(new Const(*this)); }
bool Const::deepEquals(const Expr& other) const {
  const auto* o = other.getAs<Const>();
  return o != nullptr && o->type_ == type_ && o->isTyped_ == isTyped_ && o->real_ == real_ &&
         o->integer_ == integer_;
}
std::string Const::printValue() const {
  if (!type_.isFloatingPoint()) {
    return real_ < 0 ? std::to_string(static_cast<int64_t>(integer_)) : std::to_string(integer_);
  }
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", real_);
  return text;
}
std::string Const::name(const std::vector<Tensor>&) const {
  std::string text = "C" + printValue();
  for (char& c : text) c = c == '.' ? 'z' : c == '-' || c == '+' ? 'm' : c;
  return text + "_" + Name(type_);
}
void Const::print(std::ostream& os, unsigned indent, bool pretty) const {
  Print(os, indent, pretty, printValue(), {});
}

std::unique_ptr<Expr> PlaceHolder::clone() const {
  return std::unique_ptr<Expr>(new PlaceHolder(*this));
}
bool PlaceHolder::deepEquals(const Expr& other) const {
  const auto* o = other.getAs<PlaceHolder>();
  return o != nullptr && o->index_ == index_;
}
std::string PlaceHolder::name(const std::vector<Tensor>& inputs) const {
  const bool known = index_ > 0 && index_ <= inputs.size();
  return "_" + std::to_string(index_) + (known ? Name(inputs[index_ - 1].elementType()) : "");
}
void PlaceHolder::print(std::ostream& os, unsigned indent, bool pretty) const {
  Print(os, indent, pretty, "_" + std::to_string(index_), {});
}

std::unique_ptr<Expr> Cast::clone() const {
  return std::unique_ptr<Expr>(new Cast(*argument_, type_));
}
bool Cast::deepEquals(const Expr& other) const {
  const auto* o = other.getAs<Cast>();
  return o != nullptr && o->type_ == type_ && o->argument_->deepEquals(*argument_);
}
std::string Cast::name(const std::vector<Tensor>& inputs) const {
  return "Cast" + Name(type_) + argument_->name(inputs);
}
void Cast::print(std::ostream& os, unsigned indent, bool pretty) const {
  Print(os, indent, pretty, "Cast<" + type_.toString().cloneAsString() + ">", {argument_.get()});
}

std::unique_ptr<Expr> UnaryOp::clone() const {
  return std::unique_ptr<Expr>(new UnaryOp(op_, *argument_));
}
bool UnaryOp::deepEquals(const Expr& other) const {
  const auto* o = other.getAs<UnaryOp>();
  return o != nullptr && o->op_ == op_ && o->argument_->deepEquals(*argument_);
}
std::string UnaryOp::name(const std::vector<Tensor>& inputs) const {
  return toString(op_) + argument_->name(inputs);
}
void UnaryOp::print(std::ostream& os, unsigned indent, bool pretty) const {
  Print(os, indent, pretty, toString(op_), {argument_.get()});
}

std::unique_ptr<Expr> BinaryOp::clone() const {
  return std::unique_ptr<Expr>(new BinaryOp(op_, *left_, *right_));
}
bool BinaryOp::deepEquals(const Expr& other) const {
  const auto* o = other.getAs<BinaryOp>();
  return o != nullptr && o->op_ == op_ && o->left_->deepEquals(*left_) &&
         o->right_->deepEquals(*right_);
}
std::string BinaryOp::name(const std::vector<Tensor>& inputs) const {
  return toString(op_) + left_->name(inputs) + right_->name(inputs);
}
void BinaryOp::print(std::ostream& os, unsigned indent, bool pretty) const {
  Print(os, indent, pretty, toString(op_), {left_.get(), right_.get()});
}

std::unique_ptr<Expr> TernaryOp::clone() const {
  return std::unique_ptr<Expr>(new TernaryOp(op_, *first_, *second_, *third_));
}
bool TernaryOp::deepEquals(const Expr& other) const {
  const auto* o = other.getAs<TernaryOp>();
  return o != nullptr && o->op_ == op_ && o->first_->deepEquals(*first_) &&
         o->second_->deepEquals(*second_) && o->third_->deepEquals(*third_);
}
std::string TernaryOp::name(const std::vector<Tensor>& inputs) const {
  return toString(op_) + first_->name(inputs) + second_->name(inputs) + third_->name(inputs);
}
void TernaryOp::print(std::ostream& os, unsigned indent, bool pretty) const {
  Print(os, indent, pretty, toString(op_), {first_.get(), second_.get(), third_.get()});
}

}  // namespace popops::expr
