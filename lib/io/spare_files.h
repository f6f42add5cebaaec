// Open files, counted over the process, and who can close some of them.
#pragma once

#include <cstddef>
#include <memory>

namespace shardkit::io {

// The descriptors that the library has open.
size_t OpenDescriptors();

// One more, or one less.
void CountDescriptor(int change);

// How many of them there should be at most: half of the limit on open files, for the program has some of its own.
size_t MostDescriptors();

// Has files open that it may close, and opens again when they are needed. Its methods are called by any thread, between
// the calls of the two functions below.
class SpareFiles {
 public:
  virtual ~SpareFiles() = default;
  virtual size_t count() const = 0;
  // Gives up the one that was not used for the longest time; null where there is none. It is closed when the result,
  // and all who use it, are gone.
  virtual std::shared_ptr<const void> TakeOldest() = 0;
};
void AddSpareFiles(SpareFiles* files);
void RemoveSpareFiles(SpareFiles* files);

// Takes the oldest of who has most, and returns whether there was any.
bool CloseSpareFile();

// Whether what failed with this errno is worth another try: too many files were open, and a spare one was closed. Keeps
// errno.
bool MadeRoom(int error_number);

}  // namespace shardkit::io
