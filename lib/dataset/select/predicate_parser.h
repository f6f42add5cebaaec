// Reads the text of a predicate and checks its types.
#pragma once

#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "dataset/select/predicate_tree.h"

namespace shardkit::predicate {

// As Predicate::Parse.
absl::StatusOr<Tree> ParseTree(std::string_view text, std::span<const Column> columns);

}  // namespace shardkit::predicate
