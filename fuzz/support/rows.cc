#include "support/rows.h"

#include "support/require.h"

namespace shardkit::fuzz {
namespace {

std::optional<std::string> Owned(std::optional<std::string_view> value) {
  return value ? std::optional<std::string>(*value) : std::nullopt;
}

void CompareSingleValues(const DatasetReader& dataset, const std::vector<Row>& rows, Records records) {
  BlockBuffer buffer;
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t column = 0; column < rows[i].size(); ++column) {
      const auto single = dataset.ReadValue(i, column, &buffer);
      if (!single.ok() && records == Records::kAny) continue;
      RequireOk(single.status(), "a value of a block that was read, read alone");
      Require(Owned(*single) == rows[i][column], "a value read alone is that of its block");
      if (i % 7 != 0) continue;
      std::string copied;
      const auto present = dataset.CopyValue(i, column, [&copied](std::string_view piece) {
        copied += piece;
        return absl::OkStatus();
      });
      RequireOk(present.status(), "a value of a block that was read, copied");
      Require(*present == rows[i][column].has_value() && (!*present || copied == *rows[i][column]),
              "a copied value is that of its block");
      const auto opened = dataset.OpenValue(i, column);
      RequireOk(opened.status(), "a value of a block that was read, opened");
      Require((*opened == nullptr) == !rows[i][column].has_value(), "a value is open where its block has one");
      if (*opened == nullptr) continue;
      std::string part((*opened)->size() / 2, '\0');
      RequireOk((*opened)->ReadAt((*opened)->size() - part.size(), part), "the end of an open value");
      Require((*opened)->size() == rows[i][column]->size() && rows[i][column]->ends_with(part),
              "an open value is that of its block");
    }
  }
}

void CompareScan(const DatasetReader& dataset, const std::vector<Row>& rows) {
  ScanOptions options;
  options.threads = 0;
  options.blocks_ahead = 1;
  options.end_sample = rows.size();
  const auto scanner = dataset.Scan(options);
  RequireOk(scanner.status(), "scanning blocks that were read");
  uint64_t scanned = 0;
  while (true) {
    const auto block = (*scanner)->Next();
    RequireOk(block.status(), "a block that was read, scanned");
    if (*block == nullptr) break;
    const BlockView& view = (*block)->view();
    Require((*block)->first_sample() == scanned, "scanned blocks follow each other");
    for (uint32_t i = 0; i < view.sample_count() && scanned + i < rows.size(); ++i) {
      for (size_t column = 0; column < view.column_count(); ++column) {
        Require(Owned(view.column(column).value(i)) == rows[scanned + i][column],
                "a scanned value is that of its block");
      }
    }
    scanned += view.sample_count();
  }
  Require(scanned >= rows.size(), "a scan has every block");
}

}  // namespace

DatasetOptions BoundedOptions() {
  DatasetOptions options;
  options.max_block_memory = uint64_t{64} << 20;
  return options;
}

std::optional<std::vector<Row>> ReadRows(const DatasetReader& dataset, Records records) {
  const auto blocks = dataset.ReadBlockDirectory();
  if (!blocks.ok()) return std::nullopt;
  std::vector<Row> rows;
  BlockBuffer buffer;
  BlockView view;
  for (const DatasetBlock& block : *blocks) {
    if (rows.size() >= kMostRows) break;
    if (!dataset.ReadBlock(block.shard, block.block, &buffer, &view).ok()) return std::nullopt;
    Require(view.sample_count() == block.sample_count, "a block has the samples that the directory says");
    Require(view.column_count() == dataset.columns().size(), "a block has the dataset's columns");
    for (uint32_t i = 0; i < view.sample_count() && rows.size() < kMostRows; ++i) {
      Row& row = rows.emplace_back();
      for (size_t column = 0; column < view.column_count(); ++column)
        row.push_back(Owned(view.column(column).value(i)));
    }
  }
  Require(rows.size() == std::min(kMostRows, dataset.sample_count()),
          "the blocks hold the samples that the dataset says");
  CompareSingleValues(dataset, rows, records);
  CompareScan(dataset, rows);
  return rows;
}

std::optional<std::vector<Row>> ReadRows(FileSystem& files, const std::string& path, Records records) {
  const auto dataset = DatasetReader::Open(files, path, BoundedOptions());
  return dataset.ok() ? ReadRows(**dataset, records) : std::nullopt;
}

}  // namespace shardkit::fuzz
