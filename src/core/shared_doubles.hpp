#pragma once
// Doubles that do not change and that several hold: a message that is passed on copies none.

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace swarmpi {

class SharedDoubles {
 public:
  using value_type = double;

  SharedDoubles() = default;
  SharedDoubles(std::vector<double> values)  // NOLINT(google-explicit-constructor)
      : values_(values.empty() ? nullptr
                               : std::make_shared<const std::vector<double>>(std::move(values))) {}
  SharedDoubles(std::initializer_list<double> values)
      : SharedDoubles(std::vector<double>(values)) {}

  const double* begin() const { return values_ ? values_->data() : nullptr; }
  const double* end() const { return begin() + size(); }
  const double* data() const { return begin(); }
  std::size_t size() const { return values_ ? values_->size() : 0; }
  bool empty() const { return size() == 0; }

  friend bool operator==(const SharedDoubles& a, const SharedDoubles& b) {
    return a.vector() == b.vector();
  }
  std::vector<double> vector() const { return {begin(), end()}; }

 private:
  std::shared_ptr<const std::vector<double>> values_;  // null: none
};

}  // namespace swarmpi
