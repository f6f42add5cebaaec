// What becomes of the columns of a dataset in another container: decided before any value is read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/reform.h"
#include "shardkit/convert.h"
#include "shardkit/dataset_reader.h"

namespace shardkit {

struct ConvertedColumn {
  std::optional<size_t> source;  // position in DatasetReader::columns(); none: all values are absent
  Column before;                 // of kFromNpy the column that comes out, else the one that is read
  Reform first = Reform::kNone;  // kFromNpy, or none
  Column between;
  Reform second = Reform::kNone;  // what the container needs
  Column after;                   // as it is written
};

// How samples that are not mapped column by column are made.
enum class SampleForm : uint8_t {
  kColumns,
  kGuessed,      // the members of a tar: types by looking at every value, as packing does
  kSa1bFiles,    // the image and the annotation file from SA-1B's columns
  kSa1bColumns,  // back
};

struct ConversionPlan {
  SampleForm form = SampleForm::kColumns;
  std::vector<ConvertedColumn> columns;  // kColumns and kGuessed: without the key
  std::optional<size_t> key;  // position in DatasetReader::columns(); none: samples are numbered where a key is needed
  bool escape_keys = false;   // by format::EscapeWebDatasetKey
  std::vector<Column> written;                       // what the writer is told
  bool fill_absent = false;                          // an absent byte string becomes an empty one, as it was asked for
  bool may_be_absent = true;                         // the container has absent values
  Manifest origin;                                   // for other containers: what the samples were before
  std::map<std::string, std::string> mds_encodings;  // of an MDS dataset that this was once
};

// The column that becomes the key, or none; it need not be among DatasetReader::columns(). InvalidArgument for one that
// cannot be the key, OutOfRange for one that was asked for and is not there.
absl::StatusOr<std::optional<std::string>> FindKeyColumn(const DatasetReader& dataset,
                                                         const std::optional<Manifest>& origin,
                                                         const ConvertOptions& options);

// The dataset's columns have the key's among them. `origin` is what lies beside a dataset that was converted before
// (kOriginName), if anything. InvalidArgument, naming the column and what can be done, for what cannot be mapped.
absl::StatusOr<ConversionPlan> PlanConversion(const DatasetReader& dataset, std::optional<Manifest> origin,
                                              const ConvertOptions& options);

}  // namespace shardkit
