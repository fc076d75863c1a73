#pragma once
// Files that survive a crash: what these functions report as written can be read after any kill or
// power loss.

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "core/regular_file.hpp"
#include "core/status.hpp"
#include "io/descriptor.hpp"

namespace swarmpi {

/// The folder that a path lies in: "." where it names none.
std::string folder_of(const std::string& path);
/// Syncs a file, or a folder's entries, by path.
Status sync_path(const std::string& path);
/// Makes a file system of several hosts look at a folder anew: what it remembers not to be there
/// may be there by now. NFS asks its server when a folder is opened.
void refresh_folder(const std::string& folder);
/// Whether `look` finds in this folder what another host has written, and a file system of several
/// hosts may show late. It is asked again, the folder looked at anew, for `patience_s`.
bool wait_until_seen(const std::string& folder, const std::function<bool()>& look,
                     double patience_s);
/// Creates a folder and its parents where missing, durably. Errors: stopped.
Status create_folder(const std::string& folder);
/// A regular file, opened to be read.
struct OpenedFile {
  Descriptor file;
  std::int64_t size_bytes = 0;
};
/// Errors, with the reason alone: stopped if it cannot be opened; bad_input if it is a pipe, a
/// device or a folder, or has more than `most_bytes`.
Result<OpenedFile> open_to_read(const std::string& path,
                                std::int64_t most_bytes = std::numeric_limits<std::int64_t>::max());
/// Errors of the readers: bad_input.
Result<std::string> read_file(const std::string& path, std::int64_t most_bytes = kMostReadBytes);
/// XXH3 over a file's bytes, and the file's size.
struct FileHash {
  std::uint64_t hash = 0;
  std::int64_t size_bytes = 0;
};
/// `trailer_bytes`: so many at the end are not hashed.
Result<FileHash> hash_file(const std::string& path, std::int64_t trailer_bytes = 0);

/// The last bytes of a file that carries its own hash: a line with the hash of all bytes before it.
/// Who knows size and hash can tell by a look at the end that this file, and all of it, has come
/// through to where he reads; that each byte is still as it was takes hash_file().
inline constexpr std::int64_t kTrailerBytes = 30;
/// Whether the file has this size and, at its end, this hash. Errors: bad_input, naming the path
/// and what is not so; stopped, where it cannot be read.
Status check_trailer(const std::string& path, const FileHash& expected);

/// Whether somebody may still put a new content in place, and why not: a leader may not once a
/// later one exists.
using MayPublish = std::function<Status()>;

/// Whether there is anything of this name that something could be lost of: any but an empty file.
bool holds_something(const std::string& path);
/// An error, bad_input, where what has this name is no file, behind links: a device or a pipe, for
/// one, which a file must not replace.
Status refuse_what_is_no_file(const std::string& path);
/// The path that a file is to be written to, so that links to it stay.
std::string behind_links(const std::string& path);

/// Writes to a temporary name beside `path`, syncs, renames over `path`, syncs the folder. On error
/// no partial file is left. `may_publish` is asked just before the rename, when the temporary file
/// exists: whoever takes the right away first and removes temporary files then can be sure that no
/// rename follows. Errors: stopped (no room, I/O, may not publish), with path and reason.
Status write_file_durably(const std::string& path, const std::string& content,
                          const MayPublish& may_publish = {});
/// The same for a file that `write` writes returning 0 or an errno. With `hash`
/// the file gets a trailer; `hash` receives the hash in it, and the size with it.
Status write_file_durably(const std::string& path,
                          const std::function<int(const Descriptor& file)>& write,
                          FileHash* hash = nullptr, const MayPublish& may_publish = {});
/// Creates, syncs and removes a file in `folder`, or in the nearest folder above it that exists,
/// and checks that `needed_bytes` are free. Errors: bad_input.
Status prove_writable(const std::string& folder, std::int64_t needed_bytes);

}  // namespace swarmpi
