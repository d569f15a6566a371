// Vertices that use functions of the chip: see core.cpp.
#include <arch/gc_tile_defines.h>
#include <ipu_builtins.h>
#include <ipu_intrinsics>
#include <ipudef.h>
#include <poplar/Alignment.hpp>
#include <poplar/AvailableVTypes.h>
#include <poplar/Loops.hpp>
#include <poplar/StackSizeDefs.hpp>
#include <poplar/TileConstants.hpp>
#include <poplar/Vertex.hpp>
#include <print.h>

using namespace poplar;

class Intrinsics : public Vertex {
 public:
  Input<Vector<float, VectorLayout::ONE_PTR, 8>> in;
  Output<Vector<int>> out;

  bool compute() {
    const float2 *p = reinterpret_cast<const float2 *>(&in[0]);
    const float2 a = ipu::load_postinc(&p, 1), b = ipu::load_postinc(&p, 1);  // {0, 1}, {2, -3}
    float2 stored[2];
    float2 *q = stored;
    ipu::store_postinc(&q, ipu::fma(a, b, float2{2, 1}), 1);
    out[0] = static_cast<int>(stored[0][0]);
    out[1] = static_cast<int>(stored[0][1]);
    out[2] = static_cast<int>(ipu::sum(ipu::fmax(a, b)));
    const half4 h = {1.5_h, 2.0_h, -1.0_h, 0.5_h};
    out[3] = static_cast<int>(ipu::sum(ipu::fabs(h)) - 1.0_h);
    out[4] = static_cast<int>(ipu::clamp(in[3], -2.0f, 1.5f));
    out[5] = static_cast<int>(ipu::exp(in[0]));
    out[6] = ipu::isnan(in[0] / in[0]) + ipu::isinf(in[1]);
    out[7] = ipu::cmplt(a, b)[1];
    out[8] = static_cast<int>(ipu::andc(-2.0f, -0.0f));
    const unsigned start = __builtin_ipu_get_scount_l();
    const float random = __builtin_ipu_urand_f32();
    out[9] = random >= -0.5f && random < 0.5f && __builtin_ipu_get_scount_l() - start < 1u << 31;
    out[10] = static_cast<int>(__builtin_ipu_get_tile_id());
    return true;
  }
};

class Workers : public MultiVertex {
 public:
  Output<Vector<int>> out;

  bool compute(unsigned worker) {
    out[worker] = static_cast<int>(worker);
    return numWorkers() == CTXT_WORKERS;
  }
};
