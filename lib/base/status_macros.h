// Early-return helpers for absl::Status and absl::StatusOr.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define SHARDKIT_CONCAT_INNER(a, b) a##b
#define SHARDKIT_CONCAT(a, b) SHARDKIT_CONCAT_INNER(a, b)

#define SHARDKIT_RETURN_IF_ERROR(expression)                                               \
  do {                                                                                     \
    if (absl::Status shardkit_status = (expression); !shardkit_status.ok()) [[unlikely]] { \
      return shardkit_status;                                                              \
    }                                                                                      \
  } while (false)

#define SHARDKIT_ASSIGN_OR_RETURN_INNER(temporary, target, expression) \
  auto temporary = (expression);                                       \
  if (!temporary.ok()) [[unlikely]]                                    \
    return temporary.status();                                         \
  target = *std::move(temporary)

#define SHARDKIT_ASSIGN_OR_RETURN(target, expression) \
  SHARDKIT_ASSIGN_OR_RETURN_INNER(SHARDKIT_CONCAT(shardkit_or_, __LINE__), target, expression)
