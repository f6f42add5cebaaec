// How the columns of a dataset are converted to another container. Decided before any value is read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "operations/copy/value_conversion.h"
#include "shardkit/copy.h"
#include "shardkit/dataset_reader.h"

namespace shardkit::operations {

struct ConvertedColumn {
  std::optional<size_t> source;  // position in DatasetReader::columns(); none: all values are absent
  Column before;                 // for kFromNpy the column that results, otherwise the column that is read
  ValueConversion first = ValueConversion::kNone;  // kFromNpy, or none
  Column between;
  ValueConversion second = ValueConversion::kNone;  // the form that the output container needs
  Column after;                                     // the column as it is written
  bool empty_is_absent = false;                     // an empty value of the input stands for an absent one
};

// How samples are converted.
enum class SampleForm : uint8_t {
  kColumns,
  kGuessed,      // members of a tar; types are found by looking at every value, as packing does
  kSa1bFiles,    // SA-1B's columns become the image and the annotation file
  kSa1bColumns,  // the image and the annotation file become SA-1B's columns
};

struct ColumnMapping {
  SampleForm form = SampleForm::kColumns;
  std::vector<ConvertedColumn> columns;  // kColumns and kGuessed: without the key
  std::optional<size_t> key;  // position in DatasetReader::columns(); none: samples are numbered where a key is needed
  bool escape_keys = false;   // by foreign::EscapeWebDatasetKey
  std::vector<Column> written;                       // the columns that the writer gets
  bool fill_absent = false;                          // an absent byte string becomes an empty one (--lossy)
  std::vector<std::string> absent_as_bytes;          // columns whose type has no empty value, and is bytes for that
  bool may_be_absent = true;                         // the output container can store absent values
  Manifest origin;                                   // for other containers: what the samples were before
  std::map<std::string, std::string> mds_encodings;  // when the dataset is or was MDS
};

// The column that becomes the key, or none. DatasetReader::columns() may lack it. InvalidArgument for a column that
// cannot be the key, OutOfRange when the requested column does not exist.
absl::StatusOr<std::optional<std::string>> FindKeyColumn(const DatasetReader& dataset,
                                                         const std::optional<Manifest>& origin,
                                                         const ConvertOptions& options);

// The dataset's columns include the key column. `origin` is read from the file beside a converted dataset
// (kOriginName), if there is one. InvalidArgument when a column cannot be mapped; names the column and what can be
// done.
absl::StatusOr<ColumnMapping> PlanConversion(const DatasetReader& dataset, std::optional<Manifest> origin,
                                             const ConvertOptions& options);

}  // namespace shardkit::operations
