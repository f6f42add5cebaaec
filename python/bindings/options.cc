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

Codec CodecNamed(const std::string& name) {
  return Choose<Codec>("codec", name, {{"none", Codec::kNone}, {"zstd", Codec::kZstd}});
}

Type TypeNamed(const std::string& name) {
  const auto type = TypeFromName(name);
  if (!type) throw nb::value_error(("there is no type \"" + name + "\"").c_str());
  return *type;
}

ReadMode ModeNamed(const std::string& name) {
  return Choose<ReadMode>("mode", name,
                          {{"auto", ReadMode::kAuto},
                           {"buffered", ReadMode::kBuffered},
                           {"mapped", ReadMode::kMapped},
                           {"direct", ReadMode::kDirect}});
}

Verify VerifyNamed(const std::string& name) {
  return Choose<Verify>("verify", name,
                        {{"every", Verify::kEvery}, {"first", Verify::kFirst}, {"never", Verify::kNever}});
}

SampleSelection TakeSelection(OptionReader& reader) {
  SampleSelection selection;
  reader.Take("where", selection.where);
  reader.Take("keys", selection.keys);
  reader.Take("ranges", selection.ranges);
  reader.Take("sample", selection.share);
  reader.Take("seed", selection.seed);
  return selection;
}

void TakeWriterOptions(OptionReader& reader, DatasetWriterOptions& options) {
  reader.Take("block_size", options.shard.block_size);
  reader.Take("max_block_samples", options.shard.max_block_samples);
  reader.Take("alignment", options.shard.alignment);
  reader.Take("zstd_levels", options.shard.zstd_levels);
  reader.Take("dictionaries", options.shard.dictionaries);
  reader.Take("metadata", options.shard.metadata);
  reader.Take("sync", options.sync);
  reader.Take("shard_size", options.shard_size);
  reader.Take("shard_samples", options.shard_samples);
  reader.Take("threads", options.threads);
  reader.Take("sha256", options.sha256);
  reader.Take("resume", options.resume);
  reader.Take("append", options.append);
  reader.TakeChoice<ExistingKeys>(
      "existing_keys", options.existing_keys,
      {{"refuse", ExistingKeys::kRefuse}, {"skip", ExistingKeys::kSkip}, {"add", ExistingKeys::kAdd}});
  reader.Take("job", options.job);
  std::map<std::string, std::string> names;
  reader.Take("codecs", names);
  for (const auto& [column, name] : names) options.codecs[column] = CodecNamed(name);
  names.clear();
  reader.Take("storage", names);
  for (const auto& [column, name] : names) {
    options.shard.storage[column] =
        Choose<Storage>("storage of " + column, name, {{"paged", Storage::kPaged}, {"blob", Storage::kBlob}});
  }
}

}  // namespace shardkit::bindings
