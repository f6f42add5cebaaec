#include "options.h"

#include <map>
#include <vector>

namespace shardkit::bindings {

namespace nb = nanobind;

void OptionReader::Finish() const {
  for (const auto& [name, value] : left_) {
    throw nb::type_error((function_ + ": there is no option " + nb::str(name).c_str()).c_str());
  }
}

Codec CodecFromName(const std::string& name) {
  if (name == "none") return Codec::kNone;
  if (name == "zstd") return Codec::kZstd;
  throw nb::value_error(("there is no codec \"" + name + "\"; give none or zstd").c_str());
}

ReadMode ModeFromName(const std::string& name) {
  if (name == "auto") return ReadMode::kAuto;
  if (name == "buffered") return ReadMode::kBuffered;
  if (name == "mapped") return ReadMode::kMapped;
  if (name == "direct") return ReadMode::kDirect;
  throw nb::value_error(("there is no mode \"" + name + "\"; give auto, buffered, mapped or direct").c_str());
}

void TakeWriterOptions(OptionReader& reader, DatasetWriterOptions& options) {
  reader.Take("block_size", options.shard.block_size);
  reader.Take("max_block_samples", options.shard.max_block_samples);
  reader.Take("alignment", options.shard.alignment);
  reader.Take("zstd_levels", options.shard.zstd_levels);
  reader.Take("dictionaries", options.shard.dictionaries);
  reader.Take("metadata", options.shard.metadata);
  reader.Take("sync", options.shard.sync);
  reader.Take("shard_size", options.shard_size);
  reader.Take("shard_samples", options.shard_samples);
  reader.Take("threads", options.threads);
  reader.Take("sha256", options.sha256);
  reader.Take("resume", options.resume);
  reader.Take("append", options.append);
  reader.Take("job", options.job);
  std::map<std::string, std::string> names;
  reader.Take("codecs", names);
  for (const auto& [column, name] : names) options.codecs[column] = CodecFromName(name);
  names.clear();
  reader.Take("storage", names);
  for (const auto& [column, name] : names) {
    if (name != "inline" && name != "blob") {
      throw nb::value_error(("storage of " + column + ": give inline or blob, not " + name).c_str());
    }
    options.shard.storage[column] = name == "blob" ? Storage::kBlob : Storage::kInline;
  }
}

}  // namespace shardkit::bindings
