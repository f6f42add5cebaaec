#include "operations/copy/column_mapping.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/errors.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "dataset/foreign/foreign_dataset.h"
#include "foreign/mds/mds_text.h"
#include "foreign/webdataset/webdataset_names.h"
#include "operations/sa1b/sa1b.h"
#include "operations/sources/source_names.h"
#include "operations/sources/source_unit.h"

namespace shardkit::operations {
namespace {

constexpr std::string_view kSourceName = "shardkit.source";
constexpr std::string_view kSa1bImageName = "jpg", kSa1bAnnotationsName = "json";

std::string_view SourceOf(const Metadata& metadata) {
  const auto found = metadata.find(std::string(kSourceName));
  return found == metadata.end() ? std::string_view() : found->second;
}

bool IsGrouped(const Metadata& metadata, GroupBy group_by) {
  const auto found = metadata.find(std::string(kGroupByName));
  return found != metadata.end() && found->second == GroupByName(group_by);
}

// Whether the dataset's column names are already file extensions.
bool NamesAreExtensions(const Metadata& metadata) {
  if (SourceOf(metadata) == "files") return !IsGrouped(metadata, GroupBy::kNone);
  return SourceOf(metadata) == "webdataset";
}

// Whether keys can contain dots. A reader of tars cuts keys at their first dot, and so does packing unless it is told
// otherwise; keys of other origins are as somebody chose them.
bool KeysMayHaveDots(const Metadata& metadata) {
  const auto keys = metadata.find(std::string(dataset::kKeysName));
  if (keys != metadata.end() && keys->second == dataset::kEscapedKeys) return true;
  const std::string_view source = SourceOf(metadata);
  if (source == "files") return IsGrouped(metadata, GroupBy::kLastDot) || IsGrouped(metadata, GroupBy::kNone);
  return source != "webdataset" && source != "sa1b";
}

std::string WithExtension(const std::string& name, std::string_view extension,
                          std::initializer_list<std::string_view> same) {
  const std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);  // the whole name without a dot
  return std::ranges::find(same, last) != same.end() ? name : StrCat(name, ".", extension);
}

// The name in a tar for a column that is not named after an extension. Its extension tells readers what it holds.
std::string NameInTar(const Column& column, ValueConversion conversion) {
  if (conversion == ValueConversion::kToNpy) return StrCat(column.name, ".npy");
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

bool IsNumeric(const Column& column) { return !IsByteString(column) && column.type != Type::kRle; }

Type ElementOf(const Column& column) { return column.type == Type::kNdarray ? column.dtype : column.type; }

// How values of the column are stored unchanged in containers with fewer types: timestamps as the numbers they are,
// those of types that are not known as bytes.
Column InFewerTypes(const Column& column) {
  Column out = column;
  if (!column.has_known_type()) {
    out = {};
    out.name = column.name;
    out.codec = column.codec;
    out.nullable = column.nullable;
    out.metadata = column.metadata;
  }
  for (Type* type : {&out.type, &out.dtype}) {
    if (*type >= Type::kTimestampS && *type <= Type::kTimestampNs) *type = Type::kI64;
  }
  return out;
}

Column PlainColumn(std::string_view name, Type type) { return ByteStringColumn(name, type, /*nullable=*/true); }

// Whether the keys of the tar are only numbers, because the original samples had no keys.
bool KeysAreNumbers(const DatasetReader& dataset, const std::optional<Manifest>& origin) {
  return dataset.container() == "webdataset" && origin && !origin->schema.key_column();
}

class Planner {
 public:
  Planner(const DatasetReader& dataset, std::optional<Manifest> origin, const ConvertOptions& options)
      : dataset_(dataset), origin_(std::move(origin)), options_(options) {}

  absl::StatusOr<ColumnMapping> Make() {
    if (dataset_.summary().schema.size() == 0 && !origin_) {
      return Refuse("has no shards, and so no columns: nothing can be made of it");
    }
    metadata_ = origin_ ? origin_->metadata : dataset_.summary().metadata;
    if (!origin_ && dataset_.container() != "shard") metadata_[std::string(kSourceName)] = dataset_.container();
    foreign_ = dataset_.container() != "shard";
    to_foreign_ = options_.to != Container::kShard;
    plan_.may_be_absent = options_.to != Container::kMds;
    plan_.fill_absent = options_.lossy && !plan_.may_be_absent;
    if (options_.to == Container::kMds && options_.lossy) {
      // What cannot be known of damaged data may be absent.
      auto statistics = dataset_.ReadStatistics();
      if (statistics.ok()) statistics_ = *std::move(statistics);
    }
    SHARDKIT_RETURN_IF_ERROR(IsSa1b() ? PlanSa1b() : PlanColumns());
    plan_.escape_keys = options_.to == Container::kWebDataset && KeysMayHaveDots(metadata_);
    metadata_.erase(std::string(dataset::kKeysName));
    if (plan_.escape_keys) metadata_[std::string(dataset::kKeysName)] = dataset::kEscapedKeys;
    plan_.origin.metadata = metadata_;
    TakeEncodings();
    return std::move(plan_);
  }

 private:
  template <typename... Parts>
  absl::Status Refuse(const Parts&... parts) const {
    return InvalidArgument(dataset_.path(), ": ", parts...);
  }

  // SA-1B is stored in other containers as its original files, which other programs can read. Converted back, the files
  // become columns again.
  bool IsSa1b() const {
    if (SourceOf(metadata_) != "sa1b" || !options_.columns.empty() || options_.key_column) return false;
    if (!foreign_) return to_foreign_ && HasSa1bColumns(dataset_.summary().schema);
    return origin_ && HasSa1bColumns(origin_->schema) && dataset_.FindColumn(kSa1bImageName).ok() &&
           dataset_.FindColumn(kSa1bAnnotationsName).ok();
  }

  absl::Status PlanSa1b() {
    if (foreign_ && to_foreign_) return PlanColumns();
    plan_.form = foreign_ ? SampleForm::kSa1bColumns : SampleForm::kSa1bFiles;
    SHARDKIT_ASSIGN_OR_RETURN(plan_.key, dataset_.FindColumn("key"));
    if (foreign_) {
      plan_.written = origin_->schema.columns();
      for (const std::string_view name : {kSa1bImageName, kSa1bAnnotationsName}) {
        ConvertedColumn& column = plan_.columns.emplace_back();
        SHARDKIT_ASSIGN_OR_RETURN(column.source, dataset_.FindColumn(name));
      }
      plan_.columns[0].after = origin_->schema[*origin_->schema.Find("image")];
      return absl::OkStatus();
    }
    plan_.origin.schema = dataset_.summary().schema;
    const Type image = plan_.origin.schema[*plan_.origin.schema.Find("image")].type;
    plan_.written = {KeyColumn(), ByteStringColumn(kSa1bImageName, image, false),
                     ByteStringColumn(kSa1bAnnotationsName, Type::kJson, false)};
    return absl::OkStatus();
  }

  // A column whose conversion is being planned.
  struct Planned {
    Column before;                          // for the origin's schema
    std::optional<ConvertedColumn> column;  // none for the key, which a sample stores separately
  };

  absl::Status PlanColumns() {
    SHARDKIT_ASSIGN_OR_RETURN(const std::optional<std::string> key, FindKeyColumn(dataset_, origin_, options_));
    if (key) {
      SHARDKIT_ASSIGN_OR_RETURN(plan_.key, dataset_.FindColumn(*key));
    }
    // Without an origin that names the types, types are guessed from the values of the tar.
    if (dataset_.container() == "webdataset" && !origin_ && !to_foreign_) plan_.form = SampleForm::kGuessed;
    std::vector<Planned> planned;
    for (size_t i = 0; i < dataset_.columns().size(); ++i) {
      if (i == plan_.key) {
        planned.push_back({RestoredKey(dataset_.columns()[i]), std::nullopt});
      } else if (!dataset_.columns()[i].is_key || !KeysAreNumbers(dataset_, origin_)) {
        SHARDKIT_ASSIGN_OR_RETURN(ConvertedColumn column, PlanColumn(i));
        planned.push_back({column.between, std::move(column)});
      }
    }
    SHARDKIT_RETURN_IF_ERROR(AddAbsentColumns(&planned));
    if (foreign_ && options_.columns.empty()) {
      // Neither a tar nor an MDS index keeps the order of columns.
      std::ranges::stable_sort(planned, {}, [&](const Planned& each) { return OriginalPosition(each); });
    }
    return TakePlanned(std::move(planned));
  }

  absl::Status TakePlanned(std::vector<Planned> planned) {
    const bool has_key = std::ranges::any_of(planned, [](const Planned& each) { return !each.column; });
    if (!has_key && options_.to == Container::kWebDataset) plan_.written.push_back(KeyColumn());
    std::vector<Column> before;
    for (Planned& each : planned) {
      if (each.column || !KeysAreNumbers(dataset_, origin_)) before.push_back(each.before);
      if (!each.column) {
        plan_.written.push_back(std::move(each.before));
        continue;
      }
      ConvertedColumn& column = *each.column;
      for (const ConvertedColumn& other : plan_.columns) {
        if (other.after.name == column.after.name) {
          return Refuse("columns \"", other.before.name, "\" and \"", column.before.name, "\" would both be \"",
                        column.after.name, "\": choose columns (--columns)");
        }
      }
      if (!column.source && options_.to == Container::kWebDataset) continue;  // a tar has no members for absent values
      if (plan_.form == SampleForm::kColumns) plan_.written.push_back(column.after);
      const Type plain = ColumnAfter(column.between, column.second).type;
      if (options_.to == Container::kMds && plain != column.after.type && !MayBeEmpty(plain)) {
        plan_.absent_as_bytes.push_back(column.after.name);
      }
      plan_.columns.push_back(std::move(column));
    }
    if (!to_foreign_) return absl::OkStatus();
    auto schema = Schema::Create(std::move(before));
    if (!schema.ok()) return Annotate(schema.status(), dataset_.path());
    plan_.origin.schema = *std::move(schema);
    // A dataset that goes from one foreign container to another keeps its first origin.
    if (origin_ && options_.columns.empty() && IsSa1b()) plan_.origin.schema = origin_->schema;
    return absl::OkStatus();
  }

  Column RestoredKey(const Column& stored) const {
    Column key = KeyColumn();
    key.name = stored.name;
    // A tar does not keep the name of the key column.
    const std::optional<size_t> original = origin_ ? origin_->schema.key_column() : std::nullopt;
    if (original && stored.is_key) key.name = origin_->schema[*original].name;
    key.SetCodec(KnownCodec(key));
    return key;
  }

  // Adds columns that the tar does not contain because all their values are absent. Adds all columns when there are no
  // samples.
  absl::Status AddAbsentColumns(std::vector<Planned>* planned) {
    if (!foreign_ || !origin_) return absl::OkStatus();
    const bool empty = dataset_.sample_count() == 0;
    if (!empty &&
        (dataset_.container() != "webdataset" || !options_.columns.empty() || HasSa1bColumns(origin_->schema))) {
      return absl::OkStatus();
    }
    for (const Column& column : origin_->schema.columns()) {
      const bool wanted =
          options_.columns.empty() || std::ranges::find(options_.columns, column.name) != options_.columns.end();
      if (!wanted || (!empty && !column.nullable) || IsStored(column)) continue;
      if (column.is_key) {
        if (!plan_.key && empty) planned->push_back({column, std::nullopt});
        continue;
      }
      ConvertedColumn absent;
      absent.before = absent.between = absent.after = column;
      if (options_.to == Container::kMds) SHARDKIT_RETURN_IF_ERROR(FitMds(&absent));
      planned->push_back({column, std::move(absent)});
    }
    return absl::OkStatus();
  }

  // Whether the tar has members of the column, perhaps in another form, or the MDS dataset has the column.
  bool IsStored(const Column& column) const {
    const std::string name = dataset_.container() == "webdataset" ? StoredName(column) : column.name;
    const std::string lossy = column.type == Type::kRle ? NameInTar(ColumnAfter(column, ValueConversion::kToCocoJson),
                                                                    ValueConversion::kToCocoJson)
                                                        : foreign::WebDatasetColumn(foreign::WebDatasetExtension(name));
    return std::ranges::any_of(dataset_.columns(),
                               [&](const Column& stored) { return stored.name == name || stored.name == lossy; });
  }

  size_t OriginalPosition(const Planned& planned) const {
    if (!origin_) return planned.column ? 1 : 0;
    return origin_->schema.Find(planned.before.name).value_or(origin_->schema.size());
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
    if (out.first == ValueConversion::kFromNpy) out.before = out.between;
    out.between.is_key = false;
    out.after = out.between;
    out.empty_is_absent = options_.to != Container::kMds && EmptyStandsForAbsent(out);
    if (options_.to == Container::kMds) SHARDKIT_RETURN_IF_ERROR(FitMds(&out));
    if (options_.to == Container::kWebDataset) SHARDKIT_RETURN_IF_ERROR(FitTar(&out));
    return out;
  }

  // The column as it was before it was converted for the first time.
  Column Restored(const Column& stored, ValueConversion* conversion) const {
    Column plain = stored;
    if (foreign_ && IsByteString(stored.type)) plain.SetCodec(PlainColumn(stored.name, stored.type).codec);
    if (!origin_) return plain;
    for (const Column& column : origin_->schema.columns()) {
      if (column.is_key) continue;
      if (dataset_.container() == "webdataset") {
        if (StoredName(column) != stored.name || column.type == Type::kRle) continue;
        if (IsNumeric(column)) *conversion = ValueConversion::kFromNpy;
        return column;
      }
      if (column.name != stored.name) continue;
      if (stored.type == Type::kImage) return plain;  // made of pixels, which MDS has written as bytes
      // A byte string has the same bytes in every byte string type.
      const bool bytes = IsByteString(column) && IsByteString(stored);
      const Column plain_column = InFewerTypes(column);
      const auto same = [&](const Column& a) {
        return a.type == stored.type && a.dtype == stored.dtype && a.shape == stored.shape;
      };
      if (bytes || same(column) || same(plain_column)) return column;
    }
    return plain;
  }

  // The name that a column of the origin has in the tar.
  std::string StoredName(const Column& column) const {
    if (IsNumeric(column)) return NameInTar(column, ValueConversion::kToNpy);
    return NamesAreExtensions(origin_->metadata) ? column.name : NameInTar(column, ValueConversion::kNone);
  }

  absl::Status NotExact(const Column& column, std::string_view what, std::string_view lossy) const {
    return Refuse("column \"", column.name, "\": ", what, "; --lossy ", lossy);
  }

  absl::Status FitMds(ConvertedColumn* column) const {
    const Column& from = column->between;
    const Type element = ElementOf(from);
    if (from.type == Type::kRle) {
      if (!options_.lossy)
        return NotExact(from, "MDS has no masks as run lengths", "stores them as COCO's objects in JSON");
      column->second = ValueConversion::kToCocoJson;
    } else if (element == Type::kBf16) {
      if (!options_.lossy) return NotExact(from, "MDS has no bf16", "stores the same numbers as f32");
      column->second = ValueConversion::kBf16ToF32;
    } else if (element == Type::kBool) {
      if (!options_.lossy) return NotExact(from, "MDS has no bool", "stores u8, 0 or 1");
      column->second = ValueConversion::kBoolToU8;
    }
    column->after = ColumnAfter(InFewerTypes(from), column->second);
    column->after.nullable = false;
    // No JSON and no image is empty: readers of MDS could not decode what stands for an absent value.
    const bool absent = EmptyStandsForAbsent(*column) || (options_.lossy && HasAbsent(*column));
    if (absent && !MayBeEmpty(column->after.type)) column->after.type = Type::kBytes;
    const auto encoding = foreign::MdsEncodingOf(column->after);
    if (!encoding.ok()) return Refuse(ToStd(encoding.status().message()), ": choose other columns (--columns)");
    return absl::OkStatus();
  }

  static bool MayBeEmpty(Type type) { return type != Type::kJson && type != Type::kJpeg && type != Type::kPng; }

  // Whether the column has been written to MDS as bytes, because some of its values were absent.
  bool EmptyStandsForAbsent(const ConvertedColumn& column) const {
    return column.source && dataset_.container() == "mds" && dataset_.columns()[*column.source].type == Type::kBytes &&
           column.between.nullable && !MayBeEmpty(column.between.type);
  }

  bool HasAbsent(const ConvertedColumn& column) const {
    if (!column.source) return true;
    const ManifestSummary& summary = dataset_.summary();
    const uint64_t stored = summary.sample_count + (summary.removed ? summary.removed->samples : 0);
    if (!dataset_.columns()[*column.source].nullable) return false;
    return statistics_.empty() || statistics_[*column.source].present_count < stored;
  }

  absl::Status FitTar(ConvertedColumn* column) const {
    const Column& from = column->between;
    if (from.type == Type::kRle) {
      if (!options_.lossy) {
        return NotExact(from, "a tar holds files, no masks as run lengths", "stores them as COCO's objects in JSON");
      }
      column->second = ValueConversion::kToCocoJson;
    } else if (IsNumeric(from)) {
      column->second = ValueConversion::kToNpy;
    }
    Column& after = column->after;
    after = ColumnAfter(from, column->second);
    if (!NamesAreExtensions(metadata_) || column->second != ValueConversion::kNone)
      after.name = NameInTar(after, column->second);
    const std::string extension(foreign::WebDatasetExtension(after.name));
    const std::string member = StrCat("k.", extension);
    const auto parts = foreign::SplitWebDatasetName(member);
    if (!parts || parts->key != "k" || parts->extension != extension) {
      return Refuse("column \"", from.name, "\": \"KEY.", extension,
                    "\" is no name of a member that WebDataset reads: choose other columns (--columns)");
    }
    if (const std::string read = foreign::WebDatasetColumn(extension); read != after.name) {
      if (!options_.lossy) {
        return NotExact(
            from, StrCat("its name is an extension in a tar, whose letters are read as small ones (\"", read, "\")"),
            "accepts that");
      }
      after.name = read;
    }
    return absl::OkStatus();
  }

  // Takes over the MDS encodings that types do not tell, when the dataset is MDS now or was MDS before.
  void TakeEncodings() {
    if (options_.to != Container::kMds) return;
    const Metadata& metadata = dataset_.container() == "mds" ? dataset_.summary().metadata : metadata_;
    const auto found = metadata.find("mds.encodings");
    if (found == metadata.end()) return;
    std::map<std::string, std::string> encodings;
    const absl::Status read = ReadJson(found->second, /*all=*/true, [&](JsonReader& json) {
      return json.Members([&](std::string_view name, JsonReader& value) {
        return value.IsText() ? value.Read(&encodings[std::string(name)]) : absl::OkStatus();
      });
    });
    if (!read.ok()) return;
    for (const Column& column : plan_.written) {
      if (std::ranges::find(plan_.absent_as_bytes, column.name) != plan_.absent_as_bytes.end()) continue;
      const std::string& encoding = encodings[column.name];
      if (foreign::MakeMdsColumn(column, encoding).ok()) plan_.mds_encodings[column.name] = encoding;
    }
  }

  const DatasetReader& dataset_;
  const std::optional<Manifest> origin_;
  const ConvertOptions& options_;
  Metadata metadata_;
  bool foreign_ = false;
  bool to_foreign_ = false;
  std::vector<ColumnStatistics> statistics_;  // of the dataset's columns, where they are asked for
  ColumnMapping plan_;
};

}  // namespace

absl::StatusOr<std::optional<std::string>> FindKeyColumn(const DatasetReader& dataset,
                                                         const std::optional<Manifest>& origin,
                                                         const ConvertOptions& options) {
  if (options.key_column && options.key_column->empty()) return std::nullopt;
  // Such keys are kept only from tar to tar.
  if (!options.key_column && KeysAreNumbers(dataset, origin) && options.to != Container::kWebDataset)
    return std::nullopt;
  for (const Column& column : dataset.summary().schema.columns()) {
    if (options.key_column ? column.name != *options.key_column : !column.is_key) continue;
    if (column.type == Type::kUtf8) return column.name;
    return InvalidArgument(dataset.path(), ": column \"", column.name, "\" of type ", TypeName(column.type),
                           ": a key is of type utf8");
  }
  // OutOfRange, with a list of the existing columns.
  if (options.key_column) return dataset.FindColumn(*options.key_column).status();
  return std::nullopt;
}

absl::StatusOr<ColumnMapping> PlanConversion(const DatasetReader& dataset, std::optional<Manifest> origin,
                                             const ConvertOptions& options) {
  return Planner(dataset, std::move(origin), options).Make();
}

}  // namespace shardkit::operations
