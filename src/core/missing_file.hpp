#pragma once
// What a person is told beside "No such file": a relative path begins at a folder that may not be
// the one he thinks of.

#include <string>

namespace swarmpi {

/// `; the working directory is /some/folder` where `path` is relative, else nothing.
std::string relative_to(const std::string& path);

/// What the system says of an error with `path`; where it is that nothing is there, with that.
std::string file_error(const std::string& path, int error);

}  // namespace swarmpi
