// Makes the checksums of mutated files right again, so that what is checked behind them is reached.
// Everything else stays as the mutation left it; what a mutation has made unrecognisable is left alone. A
// sound file does not change.
#pragma once

#include <string>
#include <string_view>

namespace shardkit::fuzz {

// A shard (format-spec/spec.md): header, records, chunks, block headers and their chain, sections, content
// hash, trailer, whose lengths of file and footer are brought to what the file has.
void RepairShard(std::string* shard);

// dataset.idx: pages and header. With a manifest that can be read, its dataset_hash, too.
void RepairOffsetIndex(std::string* index, std::string_view manifest);

// dataset.json: the checksum on its last line.
void RepairManifest(std::string* manifest);

// X.tar.shardidx: lengths, identity of `tar`, and checksums.
void RepairTarIndex(std::string* index, std::string_view tar);

}  // namespace shardkit::fuzz
