#pragma once

#include <span>
#include <vector>

#include "backend/cpu/experts.hpp"
#include "backend/cpu/kernels.hpp"
#include "backend/cpu/product.hpp"

namespace tpinfer {

/// What Backend::experts is asked for.
struct MixtureWork {
  std::span<const ExpertMatrices> experts;
  const Tensor* x = nullptr;
  Routing routing;
  Activation act = Activation::silu;
  bool gated = false;
  const ExpertScratch* scratch = nullptr;
  const Tensor* partials = nullptr;
};

/// Backend::experts on the CPU, in two divisions of work over the threads: gate and up with the activation over
/// (expert, panel) pieces of the experts that have rows, then down over the panels of the output, each thread all
/// experts. An expert's inputs are gathered where the kernels want a copy anyway.
class CpuMixture {
 public:
  /// Bytes that a thread holds during run().
  static const std::uint64_t kNearBytes;

  /// `scratch`: one for each thread of `parallel`.
  CpuMixture(KernelSet set, const CpuKernels& kernels, ParallelFor& parallel, std::span<ProductScratch> scratch)
      : set_(set), kernels_(kernels), parallel_(parallel), scratch_(scratch) {}

  /// Error(internal) for shapes and types that do not match.
  void run(const MixtureWork& work);

 private:
  /// An expert that has rows: entries [first, first + rows) of the groups.
  struct Active {
    const CpuMatrix* gate_up = nullptr;
    const CpuMatrix* down = nullptr;
    std::int64_t first = 0;
    std::int64_t rows = 0;
    Tensor up;         ///< float32 [rows, gate and up]
    Tensor activated;  ///< [rows, channels]
  };
  /// A block of an expert's rows: panels [0, panels) of gate (and up) are pieces of equal cost.
  struct Segment {
    std::size_t active = 0;
    std::int64_t row = 0;
    std::int64_t rows = 0;
    std::int64_t panels = 0;
    std::int64_t cost = 0;  ///< of a panel
  };

  void find_active(const MixtureWork& work);
  void divide_up(bool fused);
  void run_up(const MixtureWork& work, bool fused);
  void run_up_share(const MixtureWork& work, bool fused, std::int64_t thread) const;
  void run_segment(const MixtureWork& work, const Segment& segment, std::int64_t begin, std::int64_t end, bool fused,
                   ProductScratch& scratch) const;
  void activate_all(const MixtureWork& work) const;
  void run_down(const MixtureWork& work);

  KernelSet set_;
  const CpuKernels& kernels_;
  ParallelFor& parallel_;
  std::span<ProductScratch> scratch_;
  ExpertGroups groups_;
  std::vector<Active> active_;
  std::vector<Product> products_;  ///< of the active experts, in the phase at work
  std::vector<Segment> segments_;
  std::int64_t cost_ = 0;  ///< of all segments
};

}  // namespace tpinfer
