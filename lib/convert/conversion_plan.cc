#include "convert/conversion_plan.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "convert/source_names.h"
#include "convert/source_unit.h"
#include "format/mds_text.h"
#include "format/webdataset_names.h"
#include "shardkit/sa1b.h"

namespace shardkit {
namespace {

constexpr std::string_view kSourceName = "shardkit.source";
constexpr std::string_view kImageName = "jpg", kAnnotationsName = "json";

std::string_view SourceOf(const Metadata& metadata) {
  const auto found = metadata.find(std::string(kSourceName));
  return found == metadata.end() ? std::string_view() : found->second;
}

// Columns of such datasets are extensions of files already.
bool NamesAreExtensions(const Metadata& metadata) {
  return SourceOf(metadata) == "files" || SourceOf(metadata) == "webdataset";
}

std::string WithExtension(const std::string& name, std::string_view extension, std::initializer_list<std::string_view> same) {
  const std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);  // all of it where there is no dot
  return std::ranges::find(same, last) != same.end() ? name : StrCat(name, ".", extension);
}

// The name in a tar of a column that is not named after an extension: one that tells readers what it holds.
std::string NameInTar(const Column& column, Reform reform) {
  if (reform == Reform::kToNpy) return StrCat(column.name, ".npy");
  switch (column.type) {
    case Type::kJpeg:
      return WithExtension(column.name, "jpg", {"jpg", "jpeg", "jpe", "jfif"});
    case Type::kPng:
      return WithExtension(column.name, "png", {"png"});
    case Type::kJson:
      return WithExtension(column.name, "json", {"json"});
    case Type::kUtf8:
      return WithExtension(column.name, "txt", {"txt"});
    default:
      return column.name == "key" ? "/key" : column.name;
  }
}

bool HasSa1bColumns(const Schema& schema) {
  return std::ranges::all_of(Sa1bColumns(), [&](const Column& column) { return schema.Find(column.name).has_value(); });
}

bool IsNumeric(const Column& column) { return column.type == Type::kNdarray || ScalarSize(column.type) != 0; }

Type ElementOf(const Column& column) { return column.type == Type::kNdarray ? column.dtype : column.type; }

Column PlainColumn(std::string_view name, Type type) { return ByteStringColumn(name, type, /*nullable=*/true); }

class Planner {
 public:
  Planner(const DatasetReader& dataset, std::optional<Manifest> origin, const ConvertOptions& options)
      : dataset_(dataset), origin_(std::move(origin)), options_(options) {}

  absl::StatusOr<ConversionPlan> Make() {
    metadata_ = origin_ ? origin_->metadata : dataset_.manifest().metadata;
    if (!origin_ && dataset_.container() != "shard") metadata_[std::string(kSourceName)] = dataset_.container();
    foreign_ = dataset_.container() != "shard";
    to_foreign_ = options_.to != Container::kShard;
    plan_.may_be_absent = options_.to != Container::kMds;
    plan_.fill_absent = options_.lossy && !plan_.may_be_absent;
    SHARDKIT_RETURN_IF_ERROR(IsSa1b() ? PlanSa1b() : PlanColumns());
    plan_.origin.metadata = metadata_;
    TakeEncodings();
    return std::move(plan_);
  }

 private:
  template <typename... Parts>
  absl::Status Refuse(const Parts&... parts) const {
    return InvalidArgument(dataset_.path(), ": ", parts...);
  }

  // SA-1B goes to other containers as the files it was, which anybody can read, and comes back as columns.
  bool IsSa1b() const {
    if (SourceOf(metadata_) != "sa1b" || !options_.columns.empty() || options_.key_column) return false;
    if (!foreign_) return to_foreign_ && HasSa1bColumns(dataset_.manifest().schema);
    return origin_ && HasSa1bColumns(origin_->schema) && dataset_.FindColumn(kImageName).ok() &&
           dataset_.FindColumn(kAnnotationsName).ok();
  }

  absl::Status PlanSa1b() {
    if (foreign_ && to_foreign_) return PlanColumns();
    plan_.form = foreign_ ? SampleForm::kSa1bColumns : SampleForm::kSa1bFiles;
    SHARDKIT_ASSIGN_OR_RETURN(plan_.key, dataset_.FindColumn("key"));
    if (foreign_) {
      plan_.written = origin_->schema.columns();
      for (const std::string_view name : {kImageName, kAnnotationsName}) {
        ConvertedColumn& column = plan_.columns.emplace_back();
        SHARDKIT_ASSIGN_OR_RETURN(column.source, dataset_.FindColumn(name));
      }
      plan_.columns[0].after = origin_->schema[*origin_->schema.Find("image")];
      return absl::OkStatus();
    }
    plan_.origin.schema = dataset_.manifest().schema;
    const Type image = plan_.origin.schema[*plan_.origin.schema.Find("image")].type;
    plan_.written = {KeyColumn(), ByteStringColumn(kImageName, image, false), ByteStringColumn(kAnnotationsName, Type::kJson, false)};
    return absl::OkStatus();
  }

  absl::Status PlanColumns() {
    SHARDKIT_RETURN_IF_ERROR(ChooseKey());
    // Without a word on what they were, the values of a tar have the types that they look like.
    if (dataset_.container() == "webdataset" && !origin_ && !to_foreign_) plan_.form = SampleForm::kGuessed;
    std::vector<Column> before;
    if (plan_.key) {
      plan_.written.push_back(KeyColumn());
      plan_.written[0].name = dataset_.columns()[*plan_.key].name;
      plan_.written[0].codec = KnownCodec(plan_.written[0]);
      before.push_back(plan_.written[0]);
    } else if (options_.to == Container::kWebDataset) {
      plan_.written.push_back(KeyColumn());
    }
    for (size_t i = 0; i < dataset_.columns().size(); ++i) {
      if (i == plan_.key) continue;
      SHARDKIT_ASSIGN_OR_RETURN(ConvertedColumn column, PlanColumn(i));
      before.push_back(column.between);
      for (const ConvertedColumn& other : plan_.columns) {
        if (other.after.name == column.after.name) {
          return Refuse("columns \"", other.before.name, "\" and \"", column.before.name, "\" would both be \"", column.after.name,
                        "\": choose columns (--columns)");
        }
      }
      if (plan_.form == SampleForm::kColumns) plan_.written.push_back(column.after);
      plan_.columns.push_back(std::move(column));
    }
    if (!to_foreign_) return absl::OkStatus();
    auto schema = Schema::Create(std::move(before));
    if (!schema.ok()) return Annotate(schema.status(), dataset_.path());
    plan_.origin.schema = *std::move(schema);
    // A dataset that goes from one of these containers to the next stays what it was at first.
    if (origin_ && options_.columns.empty() && IsSa1b()) plan_.origin.schema = origin_->schema;
    return absl::OkStatus();
  }

  absl::Status ChooseKey() {
    const std::vector<Column>& columns = dataset_.columns();
    if (options_.key_column && options_.key_column->empty()) return absl::OkStatus();
    for (size_t i = 0; i < columns.size(); ++i) {
      const bool chosen = options_.key_column ? columns[i].name == *options_.key_column
                                              : columns[i].is_key || WasKey(columns[i]);
      if (!chosen) continue;
      if (columns[i].type != Type::kUtf8) {
        return Refuse("column \"", columns[i].name, "\" of type ", TypeName(columns[i].type), ": a key is of type utf8");
      }
      plan_.key = i;
      return absl::OkStatus();
    }
    // NotFound, with a list of the columns there are.
    return options_.key_column ? dataset_.FindColumn(*options_.key_column).status() : absl::OkStatus();
  }

  // A column of MDS that is the key elsewhere.
  bool WasKey(const Column& column) const {
    if (dataset_.container() != "mds" || column.type != Type::kUtf8) return false;
    if (!origin_) return column.name == "key";
    const std::optional<size_t> key = origin_->schema.key_column();
    return key && origin_->schema[*key].name == column.name;
  }

  Codec KnownCodec(const Column& column) const {
    const std::optional<size_t> known = origin_ ? origin_->schema.Find(column.name) : std::nullopt;
    if (known) return origin_->schema[*known].codec;
    if (!foreign_) return dataset_.columns()[*dataset_.FindColumn(column.name)].codec;
    return column.codec;
  }

  absl::StatusOr<ConvertedColumn> PlanColumn(size_t source) const {
    ConvertedColumn out;
    out.source = source;
    out.before = out.between = Restored(dataset_.columns()[source], &out.first);
    if (out.first == Reform::kFromNpy) out.before = out.between;
    out.between.is_key = false;
    out.after = out.between;
    if (options_.to == Container::kMds) SHARDKIT_RETURN_IF_ERROR(FitMds(&out));
    if (options_.to == Container::kWebDataset) SHARDKIT_RETURN_IF_ERROR(FitTar(&out));
    return out;
  }

  // The column that a stored one was before it was converted for the first time.
  Column Restored(const Column& stored, Reform* reform) const {
    Column plain = stored;
    if (foreign_ && IsByteString(stored.type)) plain.codec = PlainColumn(stored.name, stored.type).codec;
    if (!origin_) return plain;
    for (const Column& column : origin_->schema.columns()) {
      if (column.is_key) continue;
      if (dataset_.container() == "webdataset") {
        const bool numeric = IsNumeric(column);
        const std::string name = NamesAreExtensions(origin_->metadata) && !numeric
                                     ? column.name
                                     : NameInTar(column, numeric ? Reform::kToNpy : Reform::kNone);
        if (name != stored.name || column.type == Type::kRle) continue;
        if (numeric) *reform = Reform::kFromNpy;
        return column;
      }
      if (column.name == stored.name && column.type == stored.type && column.dtype == stored.dtype && column.shape == stored.shape) {
        return column;
      }
    }
    return plain;
  }

  absl::Status NotExact(const Column& column, std::string_view what, std::string_view lossy) const {
    return Refuse("column \"", column.name, "\": ", what, "; --lossy ", lossy);
  }

  absl::Status FitMds(ConvertedColumn* column) const {
    const Column& from = column->between;
    const Type element = ElementOf(from);
    if (from.type == Type::kRle) {
      if (!options_.lossy) return NotExact(from, "MDS has no masks as run lengths", "stores them as COCO's objects in JSON");
      column->second = Reform::kToCocoJson;
    } else if (element == Type::kBf16) {
      if (!options_.lossy) return NotExact(from, "MDS has no bf16", "stores the same numbers as f32");
      column->second = Reform::kBf16ToF32;
    } else if (element == Type::kBool) {
      if (!options_.lossy) return NotExact(from, "MDS has no bool", "stores u8, 0 or 1");
      column->second = Reform::kBoolToU8;
    }
    column->after = ReformedColumn(from, column->second);
    column->after.nullable = false;
    const auto encoding = format::MdsEncodingOf(column->after);
    if (!encoding.ok()) return Refuse(ToStd(encoding.status().message()), ": choose other columns (--columns)");
    return absl::OkStatus();
  }

  absl::Status FitTar(ConvertedColumn* column) const {
    const Column& from = column->between;
    if (from.type == Type::kRle) {
      if (!options_.lossy) {
        return NotExact(from, "a tar holds files, no masks as run lengths", "stores them as COCO's objects in JSON");
      }
      column->second = Reform::kToCocoJson;
    } else if (IsNumeric(from)) {
      column->second = Reform::kToNpy;
    }
    Column& after = column->after;
    after = ReformedColumn(from, column->second);
    if (!NamesAreExtensions(metadata_) || column->second != Reform::kNone) after.name = NameInTar(after, column->second);
    const std::string extension(format::WebDatasetExtension(after.name));
    const std::string member = StrCat("k.", extension);
    const auto parts = format::SplitWebDatasetName(member);
    if (!parts || parts->key != "k" || parts->extension != extension) {
      return Refuse("column \"", from.name, "\": \"KEY.", extension, "\" is no name of a member that WebDataset reads: choose other columns (--columns)");
    }
    if (const std::string read = format::WebDatasetColumn(extension); read != after.name) {
      if (!options_.lossy) {
        return NotExact(from, StrCat("its name is an extension in a tar, whose letters are read as small ones (\"", read, "\")"), "accepts that");
      }
      after.name = read;
    }
    return absl::OkStatus();
  }

  // Encodings that types do not tell, of a dataset that comes from MDS or came from there once.
  void TakeEncodings() {
    if (options_.to != Container::kMds) return;
    const auto found = metadata_.find("mds.encodings");
    if (found == metadata_.end()) return;
    const nlohmann::json json = nlohmann::json::parse(found->second, nullptr, false);
    if (!json.is_object()) return;
    for (const Column& column : plan_.written) {
      const auto encoding = json.find(column.name);
      if (encoding == json.end() || !encoding->is_string()) continue;
      if (format::MakeMdsColumn(column, encoding->get<std::string>()).ok()) plan_.mds_encodings[column.name] = encoding->get<std::string>();
    }
  }

  const DatasetReader& dataset_;
  const std::optional<Manifest> origin_;
  const ConvertOptions& options_;
  Metadata metadata_;
  bool foreign_ = false;
  bool to_foreign_ = false;
  ConversionPlan plan_;
};

}  // namespace

absl::StatusOr<ConversionPlan> PlanConversion(const DatasetReader& dataset, std::optional<Manifest> origin,
                                              const ConvertOptions& options) {
  return Planner(dataset, std::move(origin), options).Make();
}

}  // namespace shardkit
