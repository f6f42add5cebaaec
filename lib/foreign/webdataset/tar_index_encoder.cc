#include "foreign/webdataset/tar_index_encoder.h"

#include <array>
#include <optional>
#include <utility>

#include "base/endian.h"
#include "base/status_macros.h"
#include "container/block_builder.h"
#include "container/block_encoder.h"
#include "container/shard_file_writer.h"
#include "format/constants.h"
#include "shardkit/schema.h"

namespace shardkit::foreign {

absl::StatusOr<std::string> EncodeTarIndex(foreign::TarIndex index) {
  index.blocks = foreign::FormTarBlocks(index);
  const auto memory = NewMemoryFileSystem();
  const std::string path = "/index";
  const ShardOptions options{
      .alignment = format::kMinAlignment, .metadata = foreign::TarIndexMetadata(index), .sync = false};
  SHARDKIT_ASSIGN_OR_RETURN(const container::EncodingPlan plan,
                            container::MakeEncodingPlan(foreign::TarIndexSchema(index.columns), options));
  SHARDKIT_ASSIGN_OR_RETURN(const auto file, container::ShardFileWriter::Create(*memory, path, plan, options));
  container::BlockBuilder builder(plan.schema, UINT64_MAX, UINT32_MAX);
  container::BlockEncoder encoder;
  std::array<std::string, foreign::kTarIndexColumns> elements, arrays;
  for (size_t block = 0; block + 1 < index.blocks.size(); ++block) {
    for (uint64_t i = index.blocks[block].first_sample; i < index.blocks[block + 1].first_sample; ++i) {
      for (std::string& column : elements) column.clear();
      const uint64_t begin = index.value_ends[i], end = index.value_ends[i + 1];
      for (uint64_t k = begin; k < end; ++k) {
        const foreign::TarValue& value = index.values[k];
        AppendLittle(elements[foreign::kTarColumn], static_cast<uint16_t>(value.column));
        AppendLittle(elements[foreign::kTarOffset], value.offset);
        AppendLittle(elements[foreign::kTarLength], value.length);
        AppendLittle(elements[foreign::kTarXxh3], index.checksums[k]);
      }
      std::array<std::optional<Value>, foreign::kTarIndexColumns> values = {Value(index.key(i))};
      const uint64_t shape[] = {end - begin};
      for (size_t column = foreign::kTarColumn; column < arrays.size(); ++column) {
        arrays[column].clear();
        SHARDKIT_RETURN_IF_ERROR(AppendNdarray(plan.schema[column].dtype, shape, elements[column], &arrays[column]));
        values[column] = Value(arrays[column]);
      }
      builder.Add(values);
    }
    SHARDKIT_ASSIGN_OR_RETURN(container::EncodedBlock encoded, encoder.Encode(plan, builder.Take()));
    SHARDKIT_RETURN_IF_ERROR(file->Write(encoded, nullptr));
    builder.Recycle(std::move(encoded.raw));
  }
  SHARDKIT_RETURN_IF_ERROR(file->Finish().status());
  return memory->ReadFile(path, UINT64_MAX);
}

}  // namespace shardkit::foreign
