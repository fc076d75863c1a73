#pragma once
// What a thread does with files: others see whether its calls return, and can give them up. A file
// system may hang for minutes, or for ever, and a thread in such a call cannot be stopped.

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

namespace swarmpi {

class FileCalls {
 public:
  struct Progress {
    std::int64_t calls = 0;  ///< that have returned
    std::string running;     ///< "syncing runs/my/RUN.h5.journal/term-1"; "": no task
    bool given_up = false;   ///< the task
  };

  // ---- On the thread that works with files
  /// The calls of this thread are noted here from now on, until end(). `task`: for people.
  void begin(const std::string& task);
  void end();
  /// Whether the task that runs on the calling thread was given up: then it touches nothing more.
  static bool given_up();
  /// Copies `count` bytes of memory that somebody else changes once the task is given up. False if
  /// it was: nothing more is read.
  static bool copy_unless_given_up(void* to, const void* from, std::size_t count);

  // ---- On any thread
  Progress progress() const;
  /// The task that runs is not wanted any more: all its calls fail from now on but the one that
  /// hangs. Nothing of what copy_unless_given_up() was to copy is read after this returns.
  void give_up();

 private:
  friend class FileCall;

  mutable std::mutex mutex_;
  std::int64_t calls_ = 0;
  std::string task_, call_;
  bool given_up_ = false;
};

/// One call of the file system, for as long as this exists.
class FileCall {
 public:
  FileCall(const char* doing, const std::string& path);
  ~FileCall();
  FileCall(const FileCall&) = delete;
  FileCall& operator=(const FileCall&) = delete;
  /// Whether the call must not be made: its task was given up.
  bool refused() const { return refused_; }

 private:
  bool refused_ = false;
};

}  // namespace swarmpi
