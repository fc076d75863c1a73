#include "transport/mpi/mpi.hpp"

#include <array>

namespace swarmpi {

std::string mpi_error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) {
    return "error " + std::to_string(code);
  }
  return {text.data(), static_cast<std::size_t>(length)};
}

Status failed_call(const char* call, int code) {
  return Status::failed(std::string(call) + ": " + mpi_error_text(code));
}

bool reports_lost_rank([[maybe_unused]] int code) {
#if SWARMPI_HAVE_ULFM
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  return error_class == MPIX_ERR_PROC_FAILED;
#else
  return false;
#endif
}

}  // namespace swarmpi
