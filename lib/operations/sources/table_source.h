// Tables: files of lines of JSON or of CSV. Each row is a sample, its values are the columns. Some columns may name
// files, whose bytes are values, too.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "operations/sources/file_source.h"
#include "operations/table_rows.h"
#include "shardkit/source.h"

namespace shardkit::operations {

// The inputs are files (SourceInput::tar), each with shards of its own. Columns and types are those of the first 256
// rows, unless SourceOptions::types names them; a row with another column, a value that its column cannot hold, or a
// file that cannot be read fails.
class TableSource final : public FileSource {
 public:
  // `kind` is "jsonl", or "table", which alone has columns that name files.
  TableSource(std::string_view kind, std::vector<SourceInput> inputs, const SourceOptions& options)
      : FileSource(std::move(inputs), options), kind_(kind), values_(/*nullable=*/true, options.types) {}

  std::string_view name() const override { return kind_; }
  // InvalidArgument when the first rows of JSON have values of several kinds in a column; NotFound when none has the
  // key, or a column that is to name files.
  absl::StatusOr<std::vector<Column>> InitialColumns() override;
  void UseColumns(const std::vector<Column>& columns) override;
  void Load(WorkUnit& unit, SampleBatch* batch) override;
  absl::StatusOr<std::vector<uint64_t>> InputBytes(const WorkUnit& unit) const override;
  absl::StatusOr<uint64_t> Count() override;
  // The places of two rows with this key.
  absl::StatusOr<std::vector<std::string>> FindKey(std::string_view key) override;

 protected:
  absl::StatusOr<std::unique_ptr<TreeUnit>> NextFromTree(size_t max_samples) override;
  absl::StatusOr<std::unique_ptr<WorkUnit>> NextFromTar(size_t max_samples) override;
  void CloseInput() override;

 private:
  // A column of the table that names files, and the column of their bytes, which may take its place.
  struct FileColumn {
    std::string names, values;
  };
  // A file that a row names.
  struct NamedFile {
    const FileColumn* column;
    std::string path;
    size_t root_bytes;              // of the path
    absl::StatusOr<uint64_t> size;  // bytes, as SizeOf finds them
  };
  struct RowPlace {
    const SourceInput& input;
    uint64_t line = 0;

    std::string Text() const;
  };
  class FoundColumns;

  absl::StatusOr<std::unique_ptr<TableReader>> OpenRows(const SourceInput& input) const;
  // Calls `take` with the first rows of all inputs, without those that Load reports, until it returns false.
  absl::Status ForFirstRows(absl::FunctionRef<void(const TableFormat&)> begin,
                            absl::FunctionRef<bool(TableRow&, const RowPlace&)> take) const;
  // Sets file_columns_ by SourceOptions::file and the names of the table's columns.
  template <typename Has>
  void FindFileColumns(Has has);
  // Sets *types to the type of the first file of each of file_columns_, or bytes.
  absl::Status FindFileTypes(std::map<std::string, Type, std::less<>>* types);

  // The sample of a row without its files, which are in the order of the row.
  absl::Status ReadSample(TableRow& row, const RowPlace& place, ByteArena* arena, Sample* sample,
                          std::vector<NamedFile>* files) const;
  absl::StatusOr<std::string> RelativeName(std::string_view name, const SourceInput& input) const;
  absl::StatusOr<uint64_t> SizeOf(const NamedFile& file) const;
  absl::Status LoadFiles(const std::vector<NamedFile>& files, const RowPlace& place, ByteArena* arena, Sample* sample);
  // Of SourceOptions::root, or the table's folder, with a slash at the end; empty for the working directory.
  std::string RootOf(const SourceInput& input) const;

  const std::string kind_;
  Column key_;
  std::map<std::string, Column, std::less<>> columns_;  // without the key and those of files
  std::vector<FileColumn> file_columns_;
  ColumnTable values_;                 // of files
  std::unique_ptr<TableReader> rows_;  // of the input that is listed
};

// Files of rows, with the columns that name files (SourceOptions::file).
struct Tables {
  std::vector<SourceInput> inputs;
  std::vector<std::string> files;
};

// Whether a name is that of a file of rows.
bool IsTableName(std::string_view name);

// That another program reads it.
absl::Status NoParquet(const std::string& path);

// Hugging Face's table of a folder in a form that is not read here, and what to do.
inline constexpr std::string_view kParquetMetadataName = "metadata.parquet";
inline constexpr std::string_view kParquetMetadataWay =
    "give sk.pack the rows as in docs/recipes.md, Images with a metadata.parquet";

// Whether such a file has columns that name files, by the names in its schema. False for another file.
bool ParquetNamesFiles(const Value& parquet);

// Adds Hugging Face's metadata.csv or metadata.jsonl, with columns file_name or *_file_name, of a directory, or else of
// each of its `folders`. False if it is missing somewhere. InvalidArgument for columns file_names, of lists, and for a
// metadata.parquet with such columns.
absl::StatusOr<bool> FindMetadata(const std::string& path, std::vector<std::string> folders,
                                  const SourceOptions& options, Tables* found);

// The files of lines of JSON, or tables (`kind`): inputs that are files, and files in directories that have such names,
// by path. Of a directory with metadata these alone. InvalidArgument for other files, and directories without any.
absl::StatusOr<Tables> FindTables(std::string_view kind, const std::vector<std::string>& inputs,
                                  const SourceOptions& options);

}  // namespace shardkit::operations
