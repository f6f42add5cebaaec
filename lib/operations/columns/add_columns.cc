#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/endian.h"
#include "base/errors.h"
#include "base/exceptions.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "dataset/change/column_file_writer.h"
#include "dataset/change/dataset_update.h"
#include "dataset/dataset_files.h"
#include "dataset/read/any_dataset_reader.h"
#include "dataset/read/removed_samples.h"
#include "dataset/stored_columns.h"
#include "operations/copy/record_sorter.h"
#include "shardkit/change.h"
#include "shardkit/dataset_reader.h"

namespace shardkit::operations {
namespace {

using RowValue = std::optional<std::string_view>;

// Rows by stored samples, ascending. One thread at a time.
class PlacedRows {
 public:
  virtual ~PlacedRows() = default;

  // The next stored sample that has a row, and its values in the order of the columns but the key, valid until the next
  // call. False at the end.
  virtual absl::StatusOr<bool> Next(uint64_t* sample, std::span<RowValue> values) = 0;
};

// What the samples are matched with. Borrowed by the rows that are placed.
struct MatchInput {
  FileSystem& file_system;
  const std::string& directory;
  const DatasetReader& stored;  // the dataset as it is stored; its first column is the key where rows have keys
  const dataset::RemovedList& removed;
  ColumnRows& rows;
  const AddColumnsOptions& options;
};

// Appends the row: of each value its length plus one in 8 bytes, 0 for an absent one, and its bytes.
void AppendRow(std::span<const RowValue> row, std::string* out) {
  for (const RowValue& value : row) {
    AppendLittle(*out, value ? uint64_t{value->size()} + 1 : uint64_t{0});
    if (value) out->append(*value);
  }
}

// The row in `bytes`, which AppendRow has made; the values point into them.
void ParseRow(std::string_view bytes, std::span<RowValue> row) {
  for (RowValue& value : row) {
    const auto length = LoadLittle<uint64_t>(bytes.data());
    bytes.remove_prefix(8);
    value.reset();
    if (length == 0) continue;
    value = bytes.substr(0, length - 1);
    bytes.remove_prefix(length - 1);
  }
}

// Tells most keys that no row has.
// May take a hash for one that was added: one in forty with ten million of them, more with more. Takes 16 MiB.
class BloomFilter {
 public:
  void Add(uint64_t hash) { words_[Word(hash)] |= Bits(hash); }
  bool MayHave(uint64_t hash) const { return (words_[Word(hash)] & Bits(hash)) == Bits(hash); }

 private:
  static constexpr size_t kWords = size_t{1} << 21;

  static size_t Word(uint64_t hash) { return hash % kWords; }
  static uint64_t Bits(uint64_t hash) { return uint64_t{1} << (hash >> 58) | uint64_t{1} << (hash >> 52 & 63); }

  std::vector<uint64_t> words_ = std::vector<uint64_t>(kWords);
};

absl::Status CheckCancelled(const AddColumnsOptions& options) {
  return options.cancellation == nullptr ? absl::OkStatus() : options.cancellation->Check("adding columns");
}

// Names temporary files so that DatasetUpdate removes what an interrupted change has left of them.
std::function<std::string(size_t)> SpillPaths(const MatchInput& input, std::string_view what) {
  return [prefix = JoinPath(input.directory, StrCat(dataset::kSortedFiles, what, "-"))](size_t file) {
    return StrCat(prefix, file, ".tmp");
  };
}

std::string InQuotes(std::string_view key) { return StrCat("\"", key, "\""); }

// Rows in the order of the samples that are seen.
class OrderedRows final : public PlacedRows {
 public:
  OrderedRows(const MatchInput& input, AddColumnsReport* report)
      : rows_(input.rows),
        removed_(input.removed),
        options_(input.options),
        directory_(input.directory),
        seen_(input.stored.sample_count() - input.removed.size()),
        report_(report) {}

  absl::Status Check() const {
    if (const std::optional<uint64_t> count = rows_.count(); count && *count != seen_) return Differs(*count);
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Next(uint64_t* sample, std::span<RowValue> values) override {
    if (report_->rows % 4096 == 0) SHARDKIT_RETURN_IF_ERROR(CheckCancelled(options_));
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, rows_.Next(values));
    if (!more) {
      if (report_->rows < seen_) return Differs(report_->rows);
      return false;
    }
    if (report_->rows == seen_) return Differs(std::nullopt);
    while (removed_at_ < removed_.size() && removed_.ordinals()[removed_at_] == next_) {
      ++removed_at_;
      ++next_;
    }
    *sample = next_++;
    report_->matched = ++report_->rows;
    return true;
  }

 private:
  // `rows` is empty where there are more rows than samples.
  absl::Status Differs(std::optional<uint64_t> rows) const {
    return InvalidArgument(directory_, ": samples: ", seen_,
                           ", rows: ", rows ? StrCat(*rows) : StrCat("more than ", seen_),
                           ": without a key each sample takes one row; or name the column with the keys");
  }

  ColumnRows& rows_;
  const dataset::RemovedList& removed_;
  const AddColumnsOptions& options_;
  const std::string& directory_;
  const uint64_t seen_;
  AddColumnsReport* const report_;
  uint64_t next_ = 0;  // stored sample
  size_t removed_at_ = 0;
};

// Rows that were matched by key, out of a sorter.
class SortedRows final : public PlacedRows {
 public:
  SortedRows(std::unique_ptr<RecordSorter> sorter, const AddColumnsOptions& options)
      : sorter_(std::move(sorter)), options_(options) {}

  absl::StatusOr<bool> Next(uint64_t* sample, std::span<RowValue> values) override {
    if (taken_++ % 4096 == 0) SHARDKIT_RETURN_IF_ERROR(CheckCancelled(options_));
    std::string_view record;
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, sorter_->Next(sample, &record));
    if (more) ParseRow(record, values);
    return more;
  }

 private:
  const std::unique_ptr<RecordSorter> sorter_;
  const AddColumnsOptions& options_;
  uint64_t taken_ = 0;
};

// A row in the sorter of the rows: its number in the input, the length of its key, the key, the values.
struct KeyedRow {
  uint64_t number = 0;
  std::string_view key;
  std::string_view values;

  static KeyedRow Parse(std::string_view record) {
    const auto length = LoadLittle<uint64_t>(record.data() + 8);
    return {LoadLittle<uint64_t>(record.data()), record.substr(16, length), record.substr(16 + length)};
  }
};

absl::Status SortRows(const MatchInput& input, size_t key_column, BloomFilter& filter, RecordSorter& sorter) {
  std::vector<RowValue> row(input.rows.schema().size());
  std::vector<RowValue> values;
  std::string record;
  for (uint64_t number = 0;; ++number) {
    if (number % 4096 == 0) SHARDKIT_RETURN_IF_ERROR(CheckCancelled(input.options));
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, input.rows.Next(row));
    if (!more) return sorter.Sort();
    if (!row[key_column]) return InvalidArgument(input.directory, ": row ", number, " (from 0) has no key");
    const std::string_view key = *row[key_column];
    values.assign(row.begin(), row.end());
    values.erase(values.begin() + static_cast<std::ptrdiff_t>(key_column));
    record.clear();
    AppendLittle(record, number);
    AppendLittle(record, uint64_t{key.size()});
    record += key;
    AppendRow(values, &record);
    const uint64_t hash = Hash64(key);
    filter.Add(hash);
    SHARDKIT_RETURN_IF_ERROR(sorter.Add(hash, record));
  }
}

// The keys of the samples that are seen, without most of those that no row has: stored sample and key.
absl::Status SortKeys(const MatchInput& input, const BloomFilter& filter, RecordSorter& sorter) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto scanner, input.stored.Scan({.threads = input.options.threads}));
  const std::span<const uint64_t> removed = input.removed.ordinals();
  size_t removed_at = 0;
  std::string record;
  while (true) {
    SHARDKIT_RETURN_IF_ERROR(CheckCancelled(input.options));
    SHARDKIT_ASSIGN_OR_RETURN(const auto block, scanner->Next());
    if (block == nullptr) break;
    const ColumnView& keys = block->view().column(0);
    for (uint32_t i = 0; i < block->view().sample_count(); ++i) {
      const uint64_t sample = block->first_sample() + i;
      if (removed_at < removed.size() && removed[removed_at] == sample) {
        ++removed_at;
        continue;
      }
      const std::string_view key = keys.value(i).value_or(std::string_view());
      const uint64_t hash = Hash64(key);
      if (!filter.MayHave(hash)) continue;
      record.clear();
      AppendLittle(record, sample);
      record += key;
      SHARDKIT_RETURN_IF_ERROR(sorter.Add(hash, record));
    }
    SHARDKIT_RETURN_IF_ERROR(block->CheckMapped());
  }
  return sorter.Sort();
}

// Rows of one hash, and so most often one row.
class RowGroup {
 public:
  RowGroup(const std::string& directory, RecordSorter& sorter) : directory_(directory), sorter_(sorter) {}

  // Takes the rows of the next hash. False at the end.
  absl::StatusOr<bool> Next() {
    used_ = 0;
    if (!ahead_) {
      SHARDKIT_ASSIGN_OR_RETURN(ahead_, sorter_.Next(&next_hash_, &next_record_));
    }
    if (!ahead_) return false;
    hash_ = next_hash_;
    while (ahead_ && next_hash_ == hash_) {
      if (used_ == rows_.size()) rows_.emplace_back();
      Row& row = rows_[used_++];
      row.record.assign(next_record_);
      row.matched = false;
      const std::string_view key = KeyedRow::Parse(row.record).key;
      for (size_t i = 0; i + 1 < used_; ++i) {
        if (KeyedRow::Parse(rows_[i].record).key != key) continue;
        return InvalidArgument(directory_, ": rows ", KeyedRow::Parse(rows_[i].record).number, " and ",
                               KeyedRow::Parse(row.record).number, " (from 0) both have the key ", InQuotes(key));
      }
      SHARDKIT_ASSIGN_OR_RETURN(ahead_, sorter_.Next(&next_hash_, &next_record_));
    }
    return true;
  }

  uint64_t hash() const { return hash_; }

  struct Row {
    std::string record;
    bool matched = false;
  };
  std::span<Row> rows() { return {rows_.data(), used_}; }

 private:
  const std::string& directory_;
  RecordSorter& sorter_;
  uint64_t hash_ = 0, next_hash_ = 0;
  std::string_view next_record_;
  bool ahead_ = false;  // the next record is one of another hash
  std::vector<Row> rows_;
  size_t used_ = 0;
};

// The first of the rows that no sample has the key of, by their numbers.
class Unmatched {
 public:
  void Add(const KeyedRow& row) {
    first_.emplace_back(row.number, row.key);
    std::ranges::push_heap(first_);
    if (first_.size() <= kMostUnmatched) return;
    std::ranges::pop_heap(first_);
    first_.pop_back();
  }
  std::vector<std::string> Take() {
    std::ranges::sort(first_);
    std::vector<std::string> keys;
    for (auto& [number, key] : first_) keys.push_back(std::move(key));
    return keys;
  }

 private:
  std::vector<std::pair<uint64_t, std::string>> first_;
};

// Sets `rows`, `matched`, `unmatched` and `unmatched_keys` of *report; at the latest when the last row was taken.
absl::StatusOr<std::unique_ptr<PlacedRows>> PlaceByOrder(const MatchInput& input, AddColumnsReport* report) {
  auto rows = std::make_unique<OrderedRows>(input, report);
  SHARDKIT_RETURN_IF_ERROR(rows->Check());
  return rows;
}

// As PlaceByOrder.
absl::StatusOr<std::unique_ptr<PlacedRows>> PlaceByKey(const MatchInput& input, AddColumnsReport* report) {
  const uint64_t memory = input.options.memory;
  BloomFilter filter;
  RecordSorter rows(input.file_system, SpillPaths(input, "rows"), memory, input.options.cancellation);
  SHARDKIT_RETURN_IF_ERROR(SortRows(input, *input.rows.schema().key_column(), filter, rows));
  RecordSorter keys(input.file_system, SpillPaths(input, "keys"), memory, input.options.cancellation);
  SHARDKIT_RETURN_IF_ERROR(SortKeys(input, filter, keys));
  auto placed = std::make_unique<RecordSorter>(input.file_system, SpillPaths(input, "placed"), memory,
                                               input.options.cancellation);
  Unmatched unmatched;
  report->rows = rows.count();
  RowGroup group(input.directory, rows);
  uint64_t hash = 0;
  std::string_view key;
  SHARDKIT_ASSIGN_OR_RETURN(bool more_keys, keys.Next(&hash, &key));
  for (uint64_t step = 0;; ++step) {
    if (step % 4096 == 0) SHARDKIT_RETURN_IF_ERROR(CheckCancelled(input.options));
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, group.Next());
    if (!more) break;
    while (more_keys && hash <= group.hash()) {
      for (RowGroup::Row& row : group.rows()) {
        const KeyedRow parsed = KeyedRow::Parse(row.record);
        if (hash < group.hash() || parsed.key != key.substr(8)) continue;
        row.matched = true;
        SHARDKIT_RETURN_IF_ERROR(placed->Add(LoadLittle<uint64_t>(key.data()), parsed.values));
      }
      SHARDKIT_ASSIGN_OR_RETURN(more_keys, keys.Next(&hash, &key));
    }
    for (const RowGroup::Row& row : group.rows()) {
      if (row.matched) continue;
      ++report->unmatched;
      unmatched.Add(KeyedRow::Parse(row.record));
    }
  }
  report->unmatched_keys = unmatched.Take();
  report->matched = placed->count();
  SHARDKIT_RETURN_IF_ERROR(placed->Sort());
  return std::make_unique<SortedRows>(std::move(placed), input.options);
}

}  // namespace
}  // namespace shardkit::operations

namespace shardkit {
namespace {

// Writes the rows as column files of the dataset in input.directory, with these columns, which have their stored names.
// Samples without a row have no values.
absl::StatusOr<std::vector<ColumnFile>> WriteFiles(const operations::MatchInput& input, const Manifest& after,
                                                   const Schema& schema, operations::PlacedRows& rows) {
  dataset::ColumnFileWriter writer(input.file_system, input.directory, after.generation, schema, input.options.threads,
                                   input.options.cancellation);
  if (std::ranges::any_of(after.shards, [](const ManifestShard& shard) { return shard.sha256.has_value(); })) {
    writer.HashFiles();
  }
  std::vector<operations::RowValue> ahead(schema.size());  // the values of sample `next`
  std::vector<std::optional<Value>> row(schema.size());
  uint64_t next = 0;
  SHARDKIT_ASSIGN_OR_RETURN(bool more, rows.Next(&next, ahead));
  const auto write = [&](const DatasetBlock& base) -> absl::Status {
    for (uint64_t sample = base.first_sample; sample < base.first_sample + base.sample_count; ++sample) {
      const bool present = more && next == sample;
      for (size_t i = 0; i < row.size(); ++i) {
        row[i].reset();
        if (present && ahead[i]) row[i].emplace(*ahead[i]);
      }
      if (absl::Status status = writer.Append(row); !status.ok()) {
        return Annotate(status, StrCat("the value of sample ", sample));
      }
      if (!present) continue;
      SHARDKIT_ASSIGN_OR_RETURN(more, rows.Next(&next, ahead));
    }
    SHARDKIT_RETURN_IF_ERROR(writer.EndBlock(base.first_sample));
    if (input.options.progress) {
      input.options.progress(base.first_sample + base.sample_count, input.stored.sample_count());
    }
    return absl::OkStatus();
  };
  SHARDKIT_RETURN_IF_ERROR(input.stored.ForEachBlock(write));
  if (more) return Internal(input.directory, ": a row belongs to sample ", next, ", which is in no block");
  return writer.Finish();
}

// The columns that are added: the columns of the rows but the key.
absl::StatusOr<Schema> AddedColumns(const Schema& rows, const Manifest& manifest, bool all_have_values) {
  const std::optional<size_t> key = manifest.schema.key_column();
  std::vector<Column> columns;
  for (const Column& given : rows.columns()) {
    if (given.is_key) continue;
    if (key && manifest.schema[*key].name == given.name) {
      return InvalidArgument("column \"", given.name, "\": is the key of the samples, which stays as it is");
    }
    Column column = given;
    column.nullable = column.nullable || !all_have_values;
    columns.push_back(std::move(column));
  }
  if (columns.empty()) return InvalidArgument("there is no column to add besides the key");
  return Schema::Create(std::move(columns));
}

absl::StatusOr<AddColumnsReport> Add(FileSystem& file_system, const std::string& directory,
                                     dataset::DatasetUpdate& update, ColumnRows& rows,
                                     const AddColumnsOptions& options) {
  const Manifest& before = update.before();
  AddColumnsReport report;
  report.samples = before.seen_samples();
  // Refused before anything is read.
  SHARDKIT_RETURN_IF_ERROR(Annotate(AddedColumns(rows.schema(), before, true).status(), directory));
  if (before.sample_count == 0) {
    return FailedPrecondition(directory, ": has no samples, whose values could be added; pack some first");
  }
  DatasetOptions reading;
  const bool by_key = rows.schema().key_column().has_value();
  if (by_key) {
    const std::optional<size_t> key = before.schema.key_column();
    if (!key) {
      return FailedPrecondition(directory,
                                ": has no column of keys to match rows with; leave out the key: rows then "
                                "have the order of the samples");
    }
    reading.columns = {before.schema[*key].name};
  }
  SHARDKIT_ASSIGN_OR_RETURN(const auto stored, dataset::OpenWithRemoved(file_system, directory, reading));
  dataset::RemovedList removed;
  if (before.removed) {
    SHARDKIT_ASSIGN_OR_RETURN(removed,
                              dataset::RemovedList::Read(file_system, directory, *before.removed, before.sample_count));
  }
  const operations::MatchInput input{file_system, directory, *stored, removed, rows, options};
  absl::StatusOr<std::unique_ptr<operations::PlacedRows>> placed =
      by_key ? operations::PlaceByKey(input, &report) : operations::PlaceByOrder(input, &report);
  SHARDKIT_RETURN_IF_ERROR(placed.status());
  const bool replaces = std::ranges::any_of(
      rows.schema().columns(), [&](const Column& column) { return !column.is_key && before.schema.Find(column.name); });
  if (by_key && report.matched == 0 && report.rows > 0 && replaces) {
    return InvalidArgument(directory, ": no sample has a key of the rows, as \"", report.unmatched_keys.at(0),
                           "\": values would be replaced by none; is that the column with the keys?");
  }
  const bool all_have_values = by_key ? report.matched == before.sample_count : removed.size() == 0;
  SHARDKIT_ASSIGN_OR_RETURN(const Schema schema, AddedColumns(rows.schema(), before, all_have_values));
  Manifest after = before;
  after.BeginGeneration({.name = "columns", .arguments = {}});
  dataset::ColumnEdit edit(before);
  std::vector<Column> stored_columns = schema.columns();
  std::set<std::string> used = dataset::UsedStoredNames(before);
  for (Column& column : stored_columns) {
    dataset::ColumnEdit::EditedColumn added{column, dataset::NewStoredName(column.name, after.generation, &used)};
    column.name = added.stored_name;
    report.columns.push_back(added.column.name);
    dataset::ColumnEdit::EditedColumn* const old = edit.Find(added.column.name);
    after.operation.arguments[old == nullptr ? "add" : "replace"].push_back(added.column.name);
    if (old == nullptr) {
      edit.columns.push_back(std::move(added));
    } else {
      if (added.column.metadata.empty()) added.column.metadata = std::move(old->column.metadata);
      report.replaced.push_back(added.column.name);
      *old = std::move(added);
    }
  }
  SHARDKIT_ASSIGN_OR_RETURN(const Schema stored_schema, Schema::Create(std::move(stored_columns)));
  SHARDKIT_ASSIGN_OR_RETURN(std::vector<ColumnFile> files, WriteFiles(input, after, stored_schema, **placed));
  placed->reset();  // and its temporary file
  SHARDKIT_RETURN_IF_ERROR(Annotate(std::move(edit).Apply(&after), directory));
  report.files = files.size();
  for (ColumnFile& file : files) {
    report.bytes += file.bytes;
    after.column_files.push_back(std::move(file));
  }
  report.generation = after.generation;
  SHARDKIT_RETURN_IF_ERROR(update.Publish(&after));
  return report;
}

}  // namespace

absl::StatusOr<AddColumnsReport> AddColumns(FileSystem& file_system, const std::string& directory, ColumnRows& rows,
                                            const AddColumnsOptions& options) {
  return Guarded("adding columns", [&]() -> absl::StatusOr<AddColumnsReport> {
    SHARDKIT_ASSIGN_OR_RETURN(const auto update, dataset::BeginChange(file_system, directory));
    absl::StatusOr<AddColumnsReport> report = Add(file_system, directory, *update, rows, options);
    // The first error is reported, even when the cleanup fails too: the next change then does it.
    if (!report.ok()) (void)update->Abort();
    return report;
  });
}

}  // namespace shardkit
