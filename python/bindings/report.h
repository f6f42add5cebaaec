// Numbers of a manifest, of which shardkit.reports makes dataclasses.
#pragma once

#include <nanobind/nanobind.h>

#include "shardkit/manifest.h"

namespace shardkit::bindings {

// Sums over the dataset: shards, samples, blocks, bytes.
inline nanobind::dict ManifestDict(const Manifest& manifest) {
  nanobind::dict result;
  result["shards"] = manifest.shards.size();
  result["samples"] = manifest.seen_samples();
  result["blocks"] = manifest.block_count;
  result["bytes"] = manifest.bytes;
  return result;
}

}  // namespace shardkit::bindings
