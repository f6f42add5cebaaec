// Repairs the checksums of mutated files, so that the code behind the checksum checks is reached. All other bytes stay
// as the mutation left them. Structures that can no longer be recognised stay unchanged. A sound file does not change.
#pragma once

#include <string>
#include <string_view>

namespace shardkit::fuzz {

// A shard (format-spec/spec.md): header, records, chunks, block headers, their chain and their copies, sections,
// content hash, trailer. In the trailer, also sets the lengths of file and footer to their actual values.
void RepairShard(std::string* shard);

// A table of checked pages, such as dataset.idx: pages, root and tail.
void RepairTable(std::string* table);

// dataset.json: the checksum of the first segment's index is that of `index`. Call RepairManifest afterwards.
void RepairReference(std::string_view index, std::string* manifest);

// dataset.json: the checksum on its last line.
void RepairManifest(std::string* manifest);

// X.tar.shardidx: lengths, identity of `tar`, and checksums.
void RepairTarIndex(std::string* index, std::string_view tar);

}  // namespace shardkit::fuzz
