// Manifests of earlier generations beside dataset.json (format-spec/dataset.md, section 9.3).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataset/manifest_text.h"
#include "shardkit/filesystem.h"

namespace shardkit::dataset {

// "dataset-7.json"
std::string KeptManifestName(uint64_t generation);

// The generation in such a name, also in that of its temporary file. Empty for another name.
std::optional<uint64_t> GenerationOfKeptManifest(std::string_view name);

// Whether one of `generation` may stay beside a manifest of generation `newest`.
bool IsKept(uint64_t generation, uint64_t newest);

// Call before a manifest of the next generation is published in the place of the one with these bytes.
absl::Status KeepManifest(FileSystem& file_system, const std::string& directory, uint64_t generation,
                          std::string_view bytes);

// The manifest of a generation: dataset.json, if it is of that one. NotFound when there is none or it is not kept.
absl::StatusOr<Manifest> ReadGeneration(ReadableFileSystem& file_system, const std::string& directory,
                                        uint64_t generation);

}  // namespace shardkit::dataset
