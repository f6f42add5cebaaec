// The beginning of tars, so that their first samples can be shown before all of them have been found.
#pragma once

#include <cstdint>
#include <memory>

#include "shardkit/filesystem.h"
#include "shardkit/job.h"

namespace shardctl {

// `base`, but of each folder only the first tar is seen, and of each tar only the first `bytes` bytes. Indexes of tars
// are not seen: they are those of the whole. UINT64_MAX: everything is seen. Reads fail with Cancelled once
// `cancellation` asks for it. Both must outlive it.
std::unique_ptr<shardkit::ReadableFileSystem> BeginningOfTars(shardkit::ReadableFileSystem& base, uint64_t bytes,
                                                              const shardkit::Cancellation& cancellation);

}  // namespace shardctl
