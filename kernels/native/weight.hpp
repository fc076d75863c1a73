#pragma once
// A weight matrix as a right factor: the master itself, a copy, or, where oneDNN would pack it anew
// in every product, two copies packed once a step.

#include <memory>

#include "kernels/native/aligned_memory.hpp"
#include "kernels/native/product.hpp"

namespace swarmpi::kernels::native {

/// Of the panels that a weight is packed in: for products with its transpose, and with itself. None
/// if one is zero.
struct PanelColumns {
  std::int64_t forward = 0;
  std::int64_t backward = 0;

  bool packed() const { return forward > 0 && backward > 0; }
};

/// The hash of several copies, one after the other.
constexpr std::uint64_t joined_hash(std::uint64_t before, std::uint64_t next) {
  return 31 * before + next;
}

class NativeWeight final : public Weight {
 public:
  NativeWeight(const Products& products, std::int64_t outputs, std::int64_t inputs);
  /// With such panels, whatever oneDNN thinks of them. REQUIRES: products of bf16.
  NativeWeight(const Products& products, std::int64_t outputs, std::int64_t inputs,
               PanelColumns panels);
  /// What one takes.
  static std::size_t bytes(const Products& products, std::int64_t outputs, std::int64_t inputs);
  /// The scratch memory that refresh() needs for weights of no more outputs and inputs.
  static std::size_t scratch_bytes(const Products& products, std::int64_t outputs,
                                   std::int64_t inputs);

  std::int64_t outputs() const { return outputs_; }
  Factor forward() const { return forward_; }    // (inputs, outputs)
  Factor backward() const { return backward_; }  // (outputs, inputs)

  /// `master`: dense (outputs, inputs).
  void refresh(const Products& products, const float* master, Scratch& scratch);
  std::vector<std::span<std::byte>> copies() override;

  /// Hashes of the copies, see hash_copies(): as they were and as they are.
  struct CopyHashes {
    std::uint64_t before = 0, after = 0;
  };
  /// Whether make_and_refresh() can be used: the copies are panels.
  bool is_packed() const { return backward_copy_ != nullptr; }
  /// refresh() that calls make_row(row) before it reads this row of the master, once for each, on
  /// the workers' threads. Rows and copies are read and hashed while they are in the cache.
  template <class MakeRow>
  CopyHashes make_and_refresh(const Products& products, const float* master, Scratch& scratch,
                              const MakeRow& make_row) {
    return refresh_panels(
        products, master, scratch,
        [](const void* context, std::int64_t row) { (*static_cast<const MakeRow*>(context))(row); },
        &make_row);
  }

 private:
  using MakeRow = void (*)(const void* context, std::int64_t row);
  /// Hashes are made only where `make_row` is not null.
  CopyHashes refresh_panels(const Products& products, const float* master, Scratch& scratch,
                            MakeRow make_row, const void* context);

  std::int64_t outputs_;
  std::int64_t inputs_;
  std::unique_ptr<AlignedMemory> copy_;           // packed: for products with the transpose
  std::unique_ptr<AlignedMemory> backward_copy_;  // packed
  Factor forward_;
  Factor backward_;
};

}  // namespace swarmpi::kernels::native
