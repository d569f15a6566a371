// Functions for cpu_user_operation. Tensors are float32 unless a comment says otherwise.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#ifndef OFFSET
#define OFFSET 0
#endif

using Inputs = std::vector<const void*>;
using Counts = std::vector<uint32_t>;
using Outputs = std::vector<void*>;
using Text = std::string;

namespace {

const float* In(const Inputs& inputs, int i) { return static_cast<const float*>(inputs[i]); }
float* Out(Outputs& outputs, int i) { return static_cast<float*>(outputs[i]); }

void Product(const float* a, const float* b, uint32_t n, float factor, float* c) {
  for (uint32_t i = 0; i < n; ++i) c[i] = factor * a[i] * b[i];
}

// Fills int32 outputs with the characters of a text, then zeros.
void Spell(const Text& text, int32_t size, void* output) {
  int32_t* codes = static_cast<int32_t*>(output);
  for (int32_t i = 0; i < size; ++i) codes[i] = i < static_cast<int32_t>(text.size()) ? text[i] : 0;
}

std::atomic<int32_t> calls{0};
std::atomic<bool> inside{false};

}  // namespace

extern "C" {

// z = x * y + OFFSET.
void Callback(const Inputs& x, const Counts& n, Outputs& z, const Text&, const Text&) {
  Product(In(x, 0), In(x, 1), n[0], 1, Out(z, 0));
  for (uint32_t i = 0; i < n[0]; ++i) Out(z, 0)[i] += OFFSET;
}

// Gradient, z, x, y -> dx, dy; times a factor from the attributes.
void Callback_grad(const Inputs& x, const Counts& n, Outputs& d, const Text& factor, const Text&) {
  const float f = factor.empty() ? 1 : std::stof(factor);
  Product(In(x, 0), In(x, 3), n[0], f, Out(d, 0));
  Product(In(x, 0), In(x, 2), n[0], f, Out(d, 1));
}

void Second(const Inputs& x, const Counts& n, Outputs& z, const Text&, const Text&) {
  Product(In(x, 0), In(x, 1), n[0], 1, Out(z, 0));
}

// For inputs_with_gradients=[1]: dy only.
void Second_grad(const Inputs& x, const Counts& n, Outputs& d, const Text&, const Text&) {
  if (d.size() != 1) throw std::invalid_argument("expected one output");
  Product(In(x, 0), In(x, 2), n[0], 1, Out(d, 0));
}

void Separate(const Inputs& x, const Counts& n, Outputs& z, const Text&, const Text&) {
  Product(In(x, 0), In(x, 1), n[0], 1, Out(z, 0));
}

// For separate_gradients.
void Separate_grad(const Inputs& x, const Counts& n, Outputs& d, const Text&, const Text&,
                   int32_t input) {
  if (d.size() != 1) throw std::invalid_argument("expected one output");
  Product(In(x, 0), In(x, input == 0 ? 3 : 2), n[0], 1, Out(d, 0));
}

// Sum and difference.
void TwoOutputs(const Inputs& x, const Counts& n, Outputs& z, const Text&, const Text&) {
  for (uint32_t i = 0; i < n[0]; ++i) {
    Out(z, 0)[i] = In(x, 0)[i] + In(x, 1)[i];
    Out(z, 1)[i] = In(x, 0)[i] - In(x, 1)[i];
  }
}

// ds, dd, s, d, x, y.
void TwoOutputs_grad(const Inputs& x, const Counts& n, Outputs& d, const Text&, const Text&) {
  for (uint32_t i = 0; i < n[0]; ++i) {
    Out(d, 0)[i] = In(x, 0)[i] + In(x, 1)[i];
    Out(d, 1)[i] = In(x, 0)[i] - In(x, 1)[i];
  }
}

// Copies as many bytes per element as the attributes say.
void Copy(const Inputs& x, const Counts& n, Outputs& z, const Text& width, const Text&) {
  std::memcpy(z[0], x[0], n[0] * std::stoul(width));
}

// int32[32] each: attributes and name.
void Texts(const Inputs&, const Counts&, Outputs& z, const Text& attributes, const Text& name) {
  Spell(attributes, 32, z[0]);
  Spell(name, 32, z[1]);
}

void Log(const Inputs&, const Counts&, Outputs&, const Text&, const Text&) { ++calls; }

// int32 scalar: how often Log was called before.
void Logged(const Inputs&, const Counts&, Outputs& z, const Text&, const Text&) {
  *static_cast<int32_t*>(z[0]) = calls;
}

// Fails if it is called while it runs.
void Alone(const Inputs& x, const Counts&, Outputs& z, const Text&, const Text&) {
  if (inside.exchange(true)) throw std::logic_error("called by two threads at once");
  std::this_thread::yield();
  Out(z, 0)[0] = In(x, 0)[0] + 1;
  inside = false;
}

void Throw(const Inputs&, const Counts&, Outputs&, const Text&, const Text&) {
  throw std::runtime_error("out of ideas");
}

void ThrowNumber(const Inputs&, const Counts&, Outputs&, const Text&, const Text&) { throw 7; }

}  // extern "C"
