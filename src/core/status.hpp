#pragma once
// Errors as values. The message is made where the fact is known and printed once, at the edge.

#include <optional>
#include <string>
#include <utility>

#include "core/check.hpp"

namespace swarmpi {

/// The process's exit codes: a contract with job scripts.
enum class ExitStatus : int {
  good = 0,       ///< done, the answer is yes
  no = 1,         ///< files differ, an invariant broke, the run failed
  bad_input = 2,  ///< arguments, deck, file or output; nothing was written
  stopped = 3,    ///< stopped early, can be resumed
};
constexpr ExitStatus last_of(ExitStatus) { return ExitStatus::stopped; }

/// Success, or an exit status with a message for a person.
class [[nodiscard]] Status {
 public:
  Status() = default;
  static Status error(ExitStatus code, std::string message) {
    Status status;
    status.code_ = code;
    status.message_ = std::move(message);
    return status;
  }
  static Status bad_input(std::string message) {
    return error(ExitStatus::bad_input, std::move(message));
  }
  static Status failed(std::string message) { return error(ExitStatus::no, std::move(message)); }
  static Status stopped(std::string message) {
    return error(ExitStatus::stopped, std::move(message));
  }

  bool ok() const { return code_ == ExitStatus::good; }
  ExitStatus code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  ExitStatus code_ = ExitStatus::good;
  std::string message_;
};

/// A value, or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    SWARMPI_CHECK(!status_.ok(), "a Result without value needs an error");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & {
    SWARMPI_CHECK(ok(), status_.message());
    return *value_;
  }
  const T& value() const& {
    SWARMPI_CHECK(ok(), status_.message());
    return *value_;
  }
  T&& value() && {
    SWARMPI_CHECK(ok(), status_.message());
    return *std::move(value_);
  }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace swarmpi
