#include "model/activations.hpp"

namespace swarmpi {
namespace {

LayerActivations lay_out_layer(Layout& layout, const StageShape& shape) {
  const std::int64_t rows = shape.rows;
  LayerActivations a;
  a.x = layout.matrix(rows, shape.width);
  a.norm1_mean = layout.vector(rows);
  a.norm1_rstd = layout.vector(rows);
  a.normed1 = layout.factor(rows, shape.width);
  a.qkv = layout.factor(rows, 3 * shape.width);
  a.log_sum = layout.vector(rows * shape.heads);
  a.attended = layout.factor(rows, shape.width);
  a.middle = layout.matrix(rows, shape.width);
  a.norm2_mean = layout.vector(rows);
  a.norm2_rstd = layout.vector(rows);
  a.normed2 = layout.factor(rows, shape.width);
  a.pre = layout.matrix(rows, shape.hidden);
  a.activated = layout.factor(rows, shape.hidden);
  return a;
}

BoundaryActivations lay_out_boundary(Layout& layout, const StageShape& shape) {
  const std::int64_t rows = shape.rows;
  BoundaryActivations b;
  if (shape.widens) b.received = layout.factor(rows, shape.boundary_width);
  if (!shape.narrows) return b;
  if (shape.boundary == Boundary::maxout) b.leaving = layout.matrix(rows, shape.width);
  if (shape.boundary == Boundary::bottleneck) {
    b.leaving_factor = layout.factor(rows, shape.width);
    b.narrow = layout.matrix(rows, shape.boundary_width);
    b.norm_mean = layout.vector(rows);
    b.norm_rstd = layout.vector(rows);
  }
  return b;
}

}  // namespace

Activations lay_out_activations(Layout& layout, const StageShape& shape) {
  Activations activations;
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    activations.layers.push_back(lay_out_layer(layout, shape));
  }
  activations.boundary = lay_out_boundary(layout, shape);
  return activations;
}

ActivationSlots::ActivationSlots(const StageShape& shape, kernels::Backend& backend,
                                 std::int64_t slots)
    : scratch_(make_slot(shape, backend)) {
  resize(shape, backend, slots);
}

void ActivationSlots::resize(const StageShape& shape, kernels::Backend& backend,
                             std::int64_t slots) {
  const auto most = static_cast<std::size_t>(slots);
  if (kept_.size() > most) {
    std::stable_partition(kept_.begin(), kept_.end(),
                          [](const Slot& slot) { return slot.holds.has_value(); });
    kept_.resize(most);
  }
  while (static_cast<std::int64_t>(kept_.size()) < slots) {
    kept_.push_back(make_slot(shape, backend));
  }
}

ActivationSlots::Slot ActivationSlots::make_slot(const StageShape& shape,
                                                 kernels::Backend& backend) {
  Slot slot;
  slot.memory = allocate_layout(
      backend, [&](Layout& layout) { slot.activations = lay_out_activations(layout, shape); });
  return slot;
}

Activations& ActivationSlots::claim(const MicrobatchId& microbatch) {
  if (Activations* const kept = find(microbatch)) return *kept;
  for (Slot& slot : kept_) {
    if (slot.holds) continue;
    slot.holds = microbatch;
    return slot.activations;
  }
  return scratch();
}

Activations* ActivationSlots::find(const MicrobatchId& microbatch) {
  for (Slot& slot : kept_) {
    if (slot.holds == microbatch) return &slot.activations;
  }
  return nullptr;
}

void ActivationSlots::release(const MicrobatchId& microbatch) {
  for (Slot& slot : kept_) {
    if (slot.holds == microbatch) slot.holds.reset();
  }
}

void ActivationSlots::release_through(Step step) {
  for (Slot& slot : kept_) {
    if (slot.holds && slot.holds->step <= step) slot.holds.reset();
  }
}

void ActivationSlots::release_all() {
  for (Slot& slot : kept_) slot.holds.reset();
}

std::int64_t ActivationSlots::memory_bytes() const {
  std::size_t sum = scratch_.memory->size_bytes();
  for (const Slot& slot : kept_) sum += slot.memory->size_bytes();
  return static_cast<std::int64_t>(sum);
}

}  // namespace swarmpi
