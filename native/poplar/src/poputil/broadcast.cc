#include "poputil/Broadcast.hpp"

#include "poputil/call.h"

namespace poputil {

using poplar::Tensor;
using Shape = std::vector<size_t>;

namespace {

// Extends `shape` by that of an operand. False if there is no common one.
bool Extend(const Shape& other, Shape* shape) {
  if (other.size() > shape->size()) shape->insert(shape->begin(), other.size() - shape->size(), 1);
  const size_t missing = shape->size() - other.size();
  for (size_t d = 0; d < other.size(); ++d) {
    size_t& size = (*shape)[missing + d];
    if (size != other[d] && size != 1 && other[d] != 1) return false;
    if (size == 1) size = other[d];
  }
  return true;
}

[[noreturn]] void Fail(const Shape& a, const Shape& b) {
  throw poplibs_error("poputil::broadcastToMatch: the shape " + TextOf(a) +
                      " cannot be broadcast to match " + TextOf(b) + ".");
}

void ExpandTo(size_t rank, Tensor* t) {
  if (t->rank() < rank) *t = t->expand(Shape(rank - t->rank(), 0));
}

void BroadcastAll(std::initializer_list<Tensor*> tensors) {
  Shape shape;
  for (const Tensor* t : tensors) {
    const Shape before = shape;
    if (!Extend(t->shape(), &shape)) Fail(t->shape(), before);
  }
  for (Tensor* t : tensors) broadcastToMatch(*t, shape);
}

}  // namespace

void expandToMatchRanks(Tensor& a, Tensor& b) {
  ExpandTo(b.rank(), &a);
  ExpandTo(a.rank(), &b);
}

void broadcastToMatch(Tensor& a, const Shape& shape) {
  Shape common = shape;
  if (!Extend(a.shape(), &common) || common != shape) Fail(a.shape(), shape);
  ExpandTo(shape.size(), &a);
  for (unsigned d = 0; d < shape.size(); ++d) {
    if (a.dim(d) != shape[d]) a = a.broadcast(static_cast<unsigned>(shape[d]), d);
  }
}

void broadcastToMatch(Tensor& a, Tensor& b) { BroadcastAll({&a, &b}); }
void broadcastToMatch(Tensor& a, Tensor& b, Tensor& c) { BroadcastAll({&a, &b, &c}); }

bool canBroadcastToMatch(const Tensor& a, const Tensor& b) {
  Shape shape = a.shape();
  return Extend(b.shape(), &shape);
}

}  // namespace poputil
