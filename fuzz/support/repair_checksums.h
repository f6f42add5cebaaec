// Repairs the checksums of mutated files, so that the code behind the checksum checks is reached. All other bytes stay
// as the mutation left them. Structures that can no longer be recognised stay unchanged. A sound file does not change.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardkit::fuzz {

// A shard (format-spec/spec.md): header, records, chunks, block headers, their chain and their copies, key
// index, sections, content hash, trailer. In the trailer, also sets the lengths of file and footer to their actual
// values.
void RepairShard(std::string* shard);

// A table of checked pages, such as dataset.segment: pages and fence pages of each section, root and tail, and its
// length.
void RepairTable(std::string* table);
// The same of one that is bytes [offset, offset + length) of a file.
void RepairTable(std::string* file, uint64_t offset, uint64_t length);

// In dataset.json, bytes, root and checksum of what it says about the file `name`, which holds `table`. Call
// RepairManifest afterwards.
void RepairReference(std::string* manifest, std::string_view name, std::string_view table);

// dataset.json: the checksum on its last line.
void RepairManifest(std::string* manifest);

// X.tar.shardidx: length and identity of `tar`, and what RepairShard repairs.
void RepairTarIndex(std::string* index, std::string_view tar);

}  // namespace shardkit::fuzz
