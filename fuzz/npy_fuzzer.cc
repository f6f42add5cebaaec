// Any bytes as the .npy member of a tar whose samples were arrays. Converting them back gives an array that converts to
// the same bytes, or an error, or the unchanged bytes.
//
// Input: a byte that chooses the column's dtype and whether it has a shape, then the member.

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "shardkit/copy.h"
#include "shardkit/schema.h"
#include "support/input.h"
#include "support/memory_bound.h"
#include "support/require.h"
#include "support/rows.h"

namespace {

using namespace shardkit;
using namespace shardkit::fuzz;

Schema ArraySchema(Input& input) {
  Column key;
  key.name = "key";
  key.type = Type::kUtf8;
  key.is_key = true;
  Column array;
  array.name = "a";
  array.type = Type::kNdarray;
  array.dtype =
      std::array{Type::kU8, Type::kI16, Type::kF16, Type::kBf16, Type::kF32, Type::kI64, Type::kBool}[input.Below(7)];
  const uint32_t form = input.Below(4);
  if (form == 1) array.shape = {2, 3};
  if (form == 2) array.type = array.dtype;  // scalars are stored as .npy, too
  if (form == 2) array.dtype = Type::kU8;
  return Schema::Create({key, array}).value();
}

void WriteTar(FileSystem& files, const Schema& schema, std::string_view member) {
  WebDatasetWriterOptions options;
  options.origin.schema = schema;
  Column file;
  file.name = "a.npy";
  Column key = schema[0];
  const Schema stored = Schema::Create({key, file}).value();
  const auto writer = CreateWebDatasetWriter(files, "/tar", stored, options);
  RequireOk(writer.status(), "creating a tar");
  Sample sample{"k", {{&stored[1], Value(member)}}};
  RequireOk((*writer)->Append(sample, 1), "appending a member");
  RequireOk((*writer)->Finish().status(), "finishing a tar");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryBound bound(size);
  Input input(data, size);
  const Schema schema = ArraySchema(input);
  const std::string member(input.rest());
  const auto files = NewMemoryFileSystem();
  WriteTar(*files, schema, member);
  ConvertOptions options;
  const auto converted = Convert(*files, "/tar", "/shards", options);
  if (!converted.ok()) return 0;
  const auto dataset = DatasetReader::Open(*files, "/shards", BoundedOptions());
  RequireOk(dataset.status(), "what was converted");
  const auto rows = ReadRows(**dataset);
  Require(rows && rows->size() == 1 && (*rows)[0].size() == 2 && (*rows)[0][1], "the sample is there");
  const Column& column = (*dataset)->columns()[1];
  const std::string& value = *(*rows)[0][1];
  if (IsByteString(column.type)) {
    Require(value == member, "bytes are as they were");
    return 0;
  }
  if (column.type == Type::kNdarray) RequireOk(ParseNdarray(column, value).status(), "an array that was converted");
  options.to = Container::kWebDataset;
  RequireOk(Convert(*files, "/shards", "/again", options).status(), "an array to a tar");
  const auto again = ReadRows(*files, "/again");
  Require(again && again->size() == 1 && again->front().back() == member,
          "a file that was taken comes back byte for byte");
  return 0;
}
