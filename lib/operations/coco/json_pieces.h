// The parts of a large JSON file, found without holding the file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "shardkit/filesystem.h"

namespace shardkit::operations {

// A value of the file's object: of a member, or an element of a member's list.
struct JsonPiece {
  std::string_view member;
  bool element = false;  // else the value of the member; of a list that is given by its elements, "[]" before them
  uint64_t offset = 0;   // in the file
  std::string_view text;
};

// Reads the file from front to back in pieces of 1 MiB, and calls `take` for each member of its object; of members in
// `lists` that are lists, for each element. Only the structure between the pieces is checked: `take` parses their text,
// which is valid until it returns. The largest piece is held in memory: ResourceExhausted above 256 MiB. DataLoss, with
// the place, for a file that is no object, is cut off, or has a member twice. *hash becomes Hash64 of the file.
absl::Status ReadJsonPieces(const RandomAccessFile& file, std::span<const std::string_view> lists,
                            absl::FunctionRef<absl::Status(const JsonPiece&)> take, uint64_t* hash);

}  // namespace shardkit::operations
