// Datasets for tests of the loader, and the batches that a loader makes of them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dataset/dataset_support.h"
#include "shardkit/loader.h"

namespace shardkit::test {

inline constexpr uint64_t kMiB = uint64_t{1} << 20;

// Opens a loader. The test fails when that does not work.
inline std::unique_ptr<Loader> OpenLoader(ReadableFileSystem& files, const LoaderOptions& options,
                                          const std::string& path = "/data") {
  auto loader = Loader::Open(files, {{.path = path}}, options);
  EXPECT_TRUE(loader.ok()) << loader.status();
  return loader.ok() ? *std::move(loader) : nullptr;
}

// Rows of values by column. The first column is the key.
using Values = std::vector<std::optional<std::string>>;

inline void WriteRows(FileSystem& files, const std::string& path, const std::vector<Column>& columns,
                      const std::vector<Values>& rows, DatasetWriterOptions options = SmallShards(0, 8)) {
  options.sync = false;
  auto writer = DatasetWriter::Create(files, path, MakeSchema(columns), options);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (size_t i = 0; i < rows.size(); ++i) {
    Sample sample;
    sample.key = *rows[i][0];
    for (size_t c = 1; c < columns.size(); ++c) {
      if (rows[i][c]) sample.fields.push_back({&columns[c], Value(*rows[i][c])});
    }
    const absl::Status status = (*writer)->Append(sample, i + 1);
    ASSERT_TRUE(status.ok()) << status;
  }
  const auto summary = (*writer)->Finish();
  ASSERT_TRUE(summary.ok()) << summary.status();
}

// The bytes of a number as it is stored.
template <typename T>
std::string Bytes(T number) {
  return std::string(reinterpret_cast<const char*>(&number), sizeof(number));
}

// All visible contents of a batch, as text.
inline std::string Show(const Batch& batch) {
  std::string text = "epoch " + std::to_string(batch.epoch()) + " step " + std::to_string(batch.step()) + ":";
  for (size_t i = 0; i < batch.size(); ++i) {
    const BatchSample& sample = batch.samples()[i];
    text += " " + std::to_string(sample.dataset) + "/" + std::to_string(sample.ordinal) + "@" +
            std::to_string(sample.position) + "=" + std::string(batch.key(i));
  }
  for (size_t c = 0; c < batch.column_count(); ++c) {
    const BatchColumn& column = batch.column(c);
    text += "\n " + std::string(column.name) + " layout " + std::to_string(static_cast<int>(column.layout)) + " shape";
    for (const uint64_t size : column.shape) text += " " + std::to_string(size);
    text += " offsets";
    for (const uint64_t offset : column.offsets) text += " " + std::to_string(offset);
    text += " items";
    for (const uint64_t offset : column.item_offsets) text += " " + std::to_string(offset);
    text += " shapes";
    for (const uint64_t size : column.shapes) text += " " + std::to_string(size);
    text += " present";
    for (const uint8_t present : column.present) text += present ? " 1" : " 0";
    text += " values ";
    text.append(reinterpret_cast<const char*>(column.values.data()), column.values.size());
  }
  for (const BadSample& bad : batch.skipped()) {
    text += "\n bad " + std::to_string(bad.sample.ordinal) + " " + std::string(bad.status.message());
  }
  return text;
}

// Every batch, and the error at the end if there is one.
inline std::vector<std::string> Deliver(Loader& loader) {
  std::vector<std::string> shown;
  while (true) {
    auto batch = loader.Next();
    if (!batch.ok()) {
      shown.push_back(batch.status().ToString());
      return shown;
    }
    if (*batch == nullptr) return shown;
    shown.push_back(Show(**batch));
  }
}

}  // namespace shardkit::test
