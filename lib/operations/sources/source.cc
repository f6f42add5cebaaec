#include "shardkit/source.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "dataset/dataset_files.h"
#include "dataset/foreign/foreign_dataset.h"
#include "foreign/mds/mds_directory.h"
#include "foreign/webdataset/webdataset_names.h"
#include "operations/archives/input_file_system.h"
#include "operations/coco/coco_source.h"
#include "operations/sa1b/sa1b_source.h"
#include "operations/sa1b/sa1b_tar.h"
#include "operations/sources/dataset_source.h"
#include "operations/sources/files_source.h"
#include "operations/sources/image_folder_source.h"
#include "operations/sources/source_names.h"
#include "operations/sources/source_walk.h"
#include "operations/sources/table_source.h"
#include "shardkit/manifest.h"
#include "shardkit/shard.h"
#include "shardkit/tar_index.h"

namespace shardkit::operations {
namespace {

// What kind of data set the inputs are.
struct DetectedInputs {
  std::string_view kind;            // one of OpenSource's
  std::vector<SourceInput> inputs;  // but for "webdataset" and "mds"; a directory of only tars becomes these tars
  std::vector<std::string> notes;   // what the user may not intend, one line each
  std::vector<std::string> files;   // SourceOptions::file, of a table
};

constexpr size_t kLookedAtGroups = 256;  // to recognize pairs of SA-1B
constexpr size_t kLookedAtMembers = 64;  // of a tar

// "sa_" and digits.
bool IsSa1bStem(std::string_view stem) {
  if (!stem.starts_with("sa_") || stem.size() == 3) return false;
  return std::all_of(stem.begin() + 3, stem.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// Whether pairs sa_N.jpg + sa_N.json make up at least half of the first groups. Where fewer are pairs, adds to *notes
// what to do.
absl::StatusOr<bool> IsSa1bTree(const std::string& path, const SourceOptions& options,
                                std::vector<std::string>* notes) {
  TreeWalk walk(options.file_system, path, NameSplit::kLastDot, RulesOf(options, PassOver::kLeftovers));
  WalkedGroup group;
  size_t groups = 0;
  size_t pairs = 0;
  for (; groups < kLookedAtGroups; ++groups) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, walk.Next(&group));
    if (!more) break;
    const auto has = [&group](std::string_view rest) {
      return std::any_of(group.files.begin(), group.files.end(),
                         [rest](const WalkedFile& file) { return file.has_dot && file.rest == rest; });
    };
    if (IsSa1bStem(group.stem) && has("jpg") && has("json")) ++pairs;
  }
  if (pairs > 0 && 2 * pairs < groups) {
    notes->push_back(
        StrCat(path, ": only ", pairs, " of the first ", groups, " names ", pairs == 1 ? "is a pair" : "are pairs",
               " sa_N.jpg and sa_N.json: it is packed as files, without masks; --from sa1b --on-error skip "
               "packs the pairs with masks (--from files says that it is meant)"));
  }
  return 2 * pairs >= std::max<size_t>(groups, 1);
}

// In a tar the halves of a pair may lie far apart, so matching names are enough. Both endings must occur when the tar
// has fewer than kLookedAtMembers members. Empty when not even one member can be read.
absl::StatusOr<std::optional<bool>> IsSa1bTar(const std::string& path, const SourceOptions& options) {
  auto reader = TarMembers::Open(path, options);
  if (!reader.ok()) {
    return options.skip_errors || absl::IsDataLoss(reader.status()) ? absl::StatusOr<std::optional<bool>>(std::nullopt)
                                                                    : reader.status();
  }
  TarMember member;
  size_t members = 0;
  size_t images = 0;
  size_t annotations = 0;
  bool cut = false;
  while (members < kLookedAtMembers) {
    const auto more = (*reader)->Next(&member);
    cut = absl::IsDataLoss(more.status());  // who packs the tar says so
    if (cut) break;
    if (!more.ok()) return more.status();
    if (!*more) break;
    if (member.kind == TarMember::Kind::kDirectory) continue;
    ++members;
    const std::string_view base = BasePart(member.name);
    if (!IsSa1bStem(DivideName(base, NameSplit::kLastDot).stem)) continue;
    images += RoleOfName(base) == Sa1bRole::kImage ? 1 : 0;
    annotations += RoleOfName(base) == Sa1bRole::kJson ? 1 : 0;
  }
  if (cut && members == 0) return std::nullopt;
  const bool enough = (images > 0 && annotations > 0) || members == kLookedAtMembers || cut;
  return enough && images + annotations > 0 && 2 * (images + annotations) >= members;
}

bool IsSplitName(std::string_view name) {
  constexpr std::string_view kNames[] = {"dev", "test", "train", "training", "val", "valid", "validation"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

// Hidden files do not count, because nobody meant to pack them.
bool IsHidden(std::string_view name) {
  return name.starts_with('.') || IsLeftoverName(name, /*directory=*/false) || IsLeftoverName(name, /*directory=*/true);
}

// Whether the directory itself has a file of a name that is wanted. The listing ends with the first one, and is not
// sorted: a directory may have millions of entries.
absl::StatusOr<bool> HasAtTheTop(const std::string& path, const SourceOptions& options,
                                 absl::FunctionRef<bool(std::string_view name)> wanted) {
  const NameFilter filter(options);
  bool has = false;
  const absl::Status listed = options.file_system->ForEachEntry(path, [&](const ListedEntry& entry) {
    has = entry.type == FileType::kRegular && (options.keep_hidden || !IsHidden(entry.name)) &&
          filter.Takes(entry.name, /*directory=*/false) && wanted(entry.name);
    return has ? Cancelled("") : absl::OkStatus();
  });
  if (has) return true;
  SHARDKIT_RETURN_IF_ERROR(listed);
  return false;
}

absl::StatusOr<bool> HasFiles(const std::string& path, const SourceOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(const bool at_the_top, HasAtTheTop(path, options, [](std::string_view) { return true; }));
  if (at_the_top) return true;
  TreeWalk walk(options.file_system, path, NameSplit::kNever, RulesOf(options, PassOver::kHidden));
  WalkedGroup group;
  return walk.Next(&group);
}

// What a reader of datasets would find at a path.
enum class Found { kFiles, kTar, kTars, kMds, kTable };

// What the names in a directory say about it. Hidden names do not count.
struct Contents {
  size_t tars = 0, shards = 0, mds = 0, others = 0;  // others: without indexes and manifests
  bool manifest = false, mds_index = false;
  std::vector<std::string> folders;
};

absl::StatusOr<Contents> LookInside(const std::string& path, ReadableFileSystem* file_system,
                                    const NameFilter& filter) {
  Contents found;
  SHARDKIT_RETURN_IF_ERROR(file_system->ForEachEntry(path, [&](const ListedEntry& entry) {
    const std::string_view name = entry.name;
    if (IsHidden(name) || !filter.Takes(name, entry.type == FileType::kDirectory)) return absl::OkStatus();
    found.manifest = found.manifest || name == kManifestName;
    found.mds_index = found.mds_index || name == foreign::kMdsIndexName;
    if (entry.type == FileType::kDirectory) {
      found.folders.push_back(JoinPath(path, name));
    } else if (foreign::IsTarName(name)) {
      ++found.tars;
    } else if (name.ends_with(".shard")) {
      ++found.shards;
    } else if (foreign::IsMdsShardName(name)) {
      ++found.mds;
    } else if (!name.ends_with(".idx") && !name.ends_with(".shardidx") && !name.ends_with(".json") &&
               !dataset::GenerationOfTable(name)) {
      ++found.others;
    }
    return absl::OkStatus();
  }));
  return found;
}

// Adds to the message how to pack shards as plain files, which is done only when the user says so.
absl::Status OrAsFiles(const absl::Status& status) {
  return absl::Status(status.code(),
                      ToAbsl(StrCat(ToStd(status.message()), "; --from files packs the files as they are")));
}

absl::Status UseConvert(const std::string& path, std::string_view what) {
  return OrAsFiles(InvalidArgument(path, ": is ", what, ": shardctl convert ", path,
                                   " -o OUT --to shard makes a new dataset of its samples"));
}

absl::StatusOr<Found> FindInDirectory(const std::string& path, const SourceOptions& options) {
  ReadableFileSystem* const file_system = options.file_system;
  const NameFilter filter(options);
  SHARDKIT_ASSIGN_OR_RETURN(const Contents inside, LookInside(path, file_system, filter));
  if (inside.manifest) {
    // Another program may have a file of that name. A dataset may have its shards elsewhere, out of reach.
    const absl::Status manifest = ReadManifest(*file_system, path).status();
    if (absl::IsPermissionDenied(manifest)) return OrAsFiles(manifest);
    if (inside.shards > 0 || manifest.ok()) return UseConvert(path, "a dataset of shards");
  }
  const absl::Status mds = dataset::OpenMds(*file_system, path, {}).status();
  if (mds.ok()) return Found::kMds;
  // index.json is a common name. It is an MDS index only when there are MDS shards.
  if (!absl::IsNotFound(mds)) {
    if (inside.mds > 0) return OrAsFiles(mds);
    for (const std::string& folder : inside.folders) {
      const absl::StatusOr<Contents> looked = LookInside(folder, file_system, filter);
      if (absl::IsPermissionDenied(looked.status())) continue;  // such as lost+found; who packs it says so
      SHARDKIT_RETURN_IF_ERROR(looked.status());
      const Contents& below = *looked;
      if (below.mds > 0 && (below.mds_index || inside.others == 0)) return OrAsFiles(mds);
    }
  }
  if (!inside.folders.empty() || inside.others > 0) {
    Tables metadata;
    SHARDKIT_ASSIGN_OR_RETURN(const bool any, FindMetadata(path, inside.folders, options, &metadata));
    return any ? Found::kTable : Found::kFiles;
  }
  if (inside.tars > 0 && inside.shards == 0 && inside.mds == 0) return Found::kTars;
  const bool lost_manifest = inside.shards > 0 && inside.tars == 0 && inside.mds == 0;
  const bool lost_index = inside.mds > 0 && inside.tars == 0 && inside.shards == 0;
  if (lost_manifest || lost_index) return OrAsFiles(dataset::DescribeNoDataset(*file_system, path));
  return Found::kFiles;
}

absl::StatusOr<Found> FindContainer(const std::string& path, const SourceOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, options.file_system->Stat(path));
  if (info.type == FileType::kDirectory) return FindInDirectory(path, options);
  if (info.type != FileType::kRegular) return Found::kFiles;
  if (path.ends_with(".shard") && ShardReader::Open(*options.file_system, path).ok()) {
    return UseConvert(path, "a shard of a dataset");
  }
  const bool mds = path.ends_with(".mds") || BasePart(path) == foreign::kMdsIndexName;
  if (mds && dataset::OpenMds(*options.file_system, path, {}).ok()) return Found::kMds;
  return Found::kTar;  // or a file that cannot be packed
}

// SA-1B is published as tars. A directory of such tars is SA-1B and not a WebDataset.
absl::StatusOr<DetectedInputs> DetectTars(const std::vector<std::string>& paths, const std::vector<Found>& found,
                                          const SourceOptions& options) {
  DetectedInputs detected{"sa1b", {}};
  bool any = false;
  for (size_t i = 0; i < paths.size(); ++i) {
    std::vector<std::string> tars = {paths[i]};
    if (found[i] == Found::kTars) {
      SHARDKIT_ASSIGN_OR_RETURN(tars, ListTars(*options.file_system, paths[i]));
    }
    for (std::string& tar : tars) {
      const absl::StatusOr<std::optional<bool>> sa1b = IsSa1bTar(tar, options);
      if (!sa1b.ok() || !sa1b->value_or(true)) return DetectedInputs{"webdataset", {}};
      any = any || sa1b->has_value();
      detected.inputs.push_back({std::move(tar), true});
    }
  }
  if (!any) return DetectedInputs{"webdataset", {}};
  return detected;
}

// Finds out whether each input is a directory or a tar file. NotFound for a missing input, InvalidArgument for another
// kind of file, or for an empty directory without allow_empty.
absl::StatusOr<std::vector<SourceInput>> LookAtInputs(const std::vector<std::string>& inputs,
                                                      const SourceOptions& options) {
  const auto neither = [](const std::string& path) {
    if (path.ends_with(".parquet")) return NoParquet(path);
    const std::string_view way = dataset::WayIntoShards(BasePart(path));
    if (!way.empty() && !IsTableName(path) && !path.ends_with(".zip")) {
      return InvalidArgument(path, ": holds many samples, which the command does not read: ", way);
    }
    return InvalidArgument(path, ": neither a directory nor a tar or zip: give the directory that holds the files",
                           path.ends_with(".json") ? "; an annotation file of COCO goes together with the place of its "
                                                     "images: shardctl pack instances.json IMAGES -o OUT"
                                                   : "");
  };
  std::vector<SourceInput> result;
  for (const std::string& path : inputs) {
    SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, options.file_system->Stat(path));
    if (info.type != FileType::kDirectory && info.type != FileType::kRegular) return neither(path);
    const bool tar = info.type == FileType::kRegular;
    if (!tar && !options.allow_empty) {
      SHARDKIT_ASSIGN_OR_RETURN(const bool any, HasFiles(path, options));
      if (!any && NameFilter(options).chooses()) {
        return InvalidArgument(path, ": --include and --exclude leave no file of it; --allow-empty packs no samples");
      }
      if (!any) {
        return InvalidArgument(path,
                               ": there are no files in it: see that its file system is mounted; --allow-empty packs "
                               "no samples");
      }
    }
    if (tar) {
      const auto opened = TarMembers::Open(path, options);
      // A tar that is empty, or whose beginning is lost, is recognized by its name.
      const bool damaged = absl::IsInvalidArgument(opened.status()) || absl::IsDataLoss(opened.status());
      const bool tolerated = options.skip_errors && damaged && IsTarPath(path);
      if (absl::IsInvalidArgument(opened.status()) && !tolerated) {
        return neither(path);
      }
      if (!tolerated) SHARDKIT_RETURN_IF_ERROR(opened.status());
    }
    result.push_back({path, tar});
  }
  return result;
}

// "jsonl" if all inputs are files of lines of JSON, or directories of nothing else; "table" if all are files of rows.
// Else empty: a CSV in a directory may be a sample.
absl::StatusOr<std::string_view> KindOfRows(const std::vector<std::string>& inputs, const SourceOptions& options) {
  std::string_view kind = "jsonl";
  bool folders = false;
  for (const std::string& path : inputs) {
    SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, options.file_system->Stat(path));
    if (info.type == FileType::kRegular && IsTableName(path)) {
      if (IsCsvName(path)) kind = "table";
      continue;
    }
    if (info.type != FileType::kDirectory) return std::string_view();
    folders = true;
    SHARDKIT_ASSIGN_OR_RETURN(const bool others,
                              HasAtTheTop(path, options, [](std::string_view name) { return !IsJsonLinesName(name); }));
    if (others) return std::string_view();
    TreeWalk walk(options.file_system, path, NameSplit::kNever, RulesOf(options, PassOver::kHidden));
    WalkedGroup group;
    size_t files = 0;
    for (; files < kLookedAtGroups; ++files) {
      SHARDKIT_ASSIGN_OR_RETURN(const bool more, walk.Next(&group));
      if (!more) break;
      if (!IsJsonLinesName(group.stem)) return std::string_view();
    }
    if (files == 0) return std::string_view();
  }
  return folders && kind == "table" ? std::string_view() : kind;
}

absl::StatusOr<DetectedInputs> DetectedTables(std::string_view kind, const std::vector<std::string>& inputs,
                                              const SourceOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(Tables found, FindTables(kind, inputs, options));
  return DetectedInputs{kind, std::move(found.inputs), {}, std::move(found.files)};
}

// The input with SourceOptions::files of it. `given` and `notes` are as for FindClassesInArchives.
absl::StatusOr<std::vector<SourceInput>> ListedInput(std::string_view kind, const std::vector<std::string>& inputs,
                                                     const SourceOptions& options, ReadableFileSystem& given,
                                                     std::vector<std::string>* notes) {
  SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, options.file_system->Stat(inputs[0]));
  if (inputs.size() > 1 || info.type != FileType::kDirectory) {
    return InvalidArgument(inputs[inputs.size() - 1], ": --files-from names files of one input, a directory or a zip");
  }
  if (NameFilter(options).chooses()) {
    return InvalidArgument("--include and --exclude: not with --files-from, which names all files");
  }
  const NameSplit split = kind == "files" ? SplitOf(options) : kind == "sa1b" ? NameSplit::kLastDot : NameSplit::kNever;
  std::vector<SourceInput> listed{{.path = inputs[0], .tar = false, .listed = nullptr}};
  if (kind == "imagefolder") SHARDKIT_RETURN_IF_ERROR(FindClassesInArchives(given, options, &listed, notes));
  // A list that find has written has the bytes.
  SHARDKIT_ASSIGN_OR_RETURN(const NameEncoding names, NameEncoding::Create(options.names));
  std::vector<std::string> files = *options.files;
  for (std::string& name : files) {
    if (!ValidUtf8(name)) name = names.TextOf(name);
    if (listed[0].folder.empty()) continue;
    while (name.starts_with("./")) name.erase(0, 2);
    if (name.starts_with(listed[0].folder)) name.erase(0, listed[0].folder.size());
  }
  SHARDKIT_ASSIGN_OR_RETURN(std::string list, ListNames(files, split));
  listed[0].listed = std::make_shared<const std::string>(std::move(list));
  return listed;
}

// A kind other than "files" means that every input is of that kind. InvalidArgument when inputs are datasets of shards,
// or when only some of them are datasets of another container. An incomplete dataset is an error too.
absl::StatusOr<DetectedInputs> DetectKind(const std::vector<std::string>& paths, const SourceOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(const std::string_view rows, KindOfRows(paths, options));
  if (!rows.empty()) return DetectedTables(rows, paths, options);
  std::vector<Found> found;
  for (const std::string& path : paths) {
    SHARDKIT_ASSIGN_OR_RETURN(found.emplace_back(), FindContainer(path, options));
  }
  for (const Found container : {Found::kMds, Found::kTars}) {
    const auto first = std::ranges::find(found, container);
    if (first == found.end()) continue;
    for (size_t i = 0; i < paths.size(); ++i) {
      if (found[i] == container || (container == Found::kTars && found[i] == Found::kTar)) continue;
      return OrAsFiles(InvalidArgument(paths[i], ": is not, as ", paths[static_cast<size_t>(first - found.begin())],
                                       container == Found::kMds ? ", a dataset of MDS" : ", a directory of tars",
                                       ": pack them apart, then merge them (shardctl merge)"));
    }
    if (container == Found::kMds) return DetectedInputs{"mds", {}};
    return DetectTars(paths, found, options);
  }
  if (std::ranges::all_of(found, [](Found what) { return what == Found::kTable; })) {
    return DetectedTables("table", paths, options);
  }
  DetectedInputs detected{"files", {}};
  SHARDKIT_ASSIGN_OR_RETURN(detected.inputs, LookAtInputs(paths, options));
  const auto all = [&](auto is_kind) -> absl::StatusOr<bool> {
    for (const SourceInput& input : detected.inputs) {
      SHARDKIT_ASSIGN_OR_RETURN(const bool fits, is_kind(input));
      if (!fits) return false;
    }
    return true;
  };
  bool any = false;
  SHARDKIT_ASSIGN_OR_RETURN(const bool sa1b, all([&](const SourceInput& input) -> absl::StatusOr<bool> {
                              std::optional<bool> fits;
                              if (input.tar) {
                                SHARDKIT_ASSIGN_OR_RETURN(fits, IsSa1bTar(input.path, options));
                              } else {
                                SHARDKIT_ASSIGN_OR_RETURN(fits, IsSa1bTree(input.path, options, &detected.notes));
                              }
                              any = any || fits.value_or(false);
                              return fits.value_or(true);
                            }));
  if (sa1b && any) {
    detected.kind = "sa1b";
    return detected;
  }
  std::vector<ImageFolder> folders;
  for (const SourceInput& input : detected.inputs) {
    if (input.tar) return detected;
    SHARDKIT_ASSIGN_OR_RETURN(folders.emplace_back(), LookAtImageFolder(input.path, options));
    if (!folders.back().fits && folders.back().but.empty()) return detected;
  }
  const auto wrong = std::ranges::find(folders, false, &ImageFolder::fits);
  if (wrong != folders.end()) {
    detected.notes.push_back(
        StrCat(detected.inputs[static_cast<size_t>(wrong - folders.begin())].path, ": looks like class folders, but ",
               wrong->but,
               ": it is packed as files, without labels; --from imagefolder --on-error skip packs the images with "
               "labels (--from files says that it is meant)"));
    return detected;
  }
  detected.kind = "imagefolder";
  for (size_t i = 0; i < folders.size(); ++i) {
    SourceInput& input = detected.inputs[i];
    const ClassFolders& classes = folders[i].classes;
    if (classes.folder.empty()) continue;
    detected.notes.push_back(StrCat(FoundWithin(input.path, classes), " (--from files packs the files as they are)"));
    input.path = classes.path;
    input.folder = classes.folder;
  }
  if (std::ranges::all_of(
          folders, [](const ImageFolder& found) { return std::ranges::all_of(found.classes.names, IsSplitName); })) {
    const ClassFolders& found = folders[0].classes;
    detected.notes.push_back(StrCat(found.path, ": the classes are named ", found.names[0], ", ", found.names[1],
                                    found.names.size() > 2 ? ", …" : "",
                                    ": are the classes in these folders? Then "
                                    "pack each by itself, as ",
                                    JoinPath(found.path, found.names[0]),
                                    " (--from imagefolder says that it is meant)"));
  }
  return detected;
}

}  // namespace
}  // namespace shardkit::operations

namespace shardkit {
namespace {

absl::Status CheckRoot(const SourceOptions& options) {
  if (options.file.empty()) {
    return InvalidArgument("--root: only with --file, which names the columns that name files in it");
  }
  SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, options.file_system->Stat(options.root));
  if (info.type == FileType::kDirectory) return absl::OkStatus();
  return InvalidArgument("--root ", options.root, ": neither a folder nor a tar or zip");
}

absl::Status NoTypes(const std::string& path) {
  return InvalidArgument(path, ": --type: its columns have types that do not depend on what values look like");
}

absl::StatusOr<std::unique_ptr<Source>> OpenDatasets(std::string_view container, const std::vector<std::string>& paths,
                                                     const SourceOptions& options,
                                                     const std::shared_ptr<ReadableFileSystem>& opened) {
  if (paths.empty()) return InvalidArgument("no input given");
  ConvertOptions convert;
  convert.max_decompression = options.max_decompression;
  convert.pack.skip_errors = options.skip_errors;
  convert.verify_listed_hashes = options.verify_listed_hashes;
  std::vector<operations::ConversionInput> inputs;
  for (const std::string& path : paths) {
    SHARDKIT_ASSIGN_OR_RETURN(operations::ConversionInput input,
                              operations::OpenConversionInput(*options.file_system, path, convert));
    if (input.dataset->container() != container) {
      return InvalidArgument(path, ": is a dataset of container ", input.dataset->container(), ", not ", container);
    }
    if (!inputs.empty() && input.plan.form != inputs[0].plan.form) {
      return InvalidArgument(
          path, ": has another origin than the datasets before it: convert them one by one, then merge them");
    }
    input.file_system = opened;
    inputs.push_back(std::move(input));
  }
  if (!options.types.empty() && inputs[0].plan.form != operations::SampleForm::kGuessed) return NoTypes(paths[0]);
  auto source = std::make_unique<operations::DatasetSource>(std::move(inputs), options.skip_errors, options.types);
  SHARDKIT_RETURN_IF_ERROR(source->Start());
  return source;
}

}  // namespace

std::string_view GroupByName(GroupBy group_by) {
  switch (group_by) {
    case GroupBy::kFirstDot:
      return "first-dot";
    case GroupBy::kLastDot:
      return "last-dot";
    case GroupBy::kNone:
      break;
  }
  return "none";
}

absl::StatusOr<uint64_t> Source::Skip(uint64_t count) {
  constexpr uint64_t kAtOnce = 4096;
  uint64_t passed = 0;
  while (passed < count) {
    SHARDKIT_ASSIGN_OR_RETURN(const std::unique_ptr<WorkUnit> unit, Next(std::min(count - passed, kAtOnce)));
    if (!unit) break;
    passed += unit->sample_count;
  }
  return passed;
}

absl::StatusOr<std::unique_ptr<Source>> OpenSource(std::string_view kind, const std::vector<std::string>& inputs,
                                                   const SourceOptions& given) {
  SourceOptions options = given;
  if (kind == "auto" && !options.file.empty()) kind = "table";
  if (kind == "auto" && !options.files) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool coco, operations::CocoSource::AreInputs(inputs, options));
    if (coco) kind = "coco";
  }
  SHARDKIT_ASSIGN_OR_RETURN(auto opened, operations::OpenInputs(kind, inputs, &options));
  const auto other = [&](std::string_view found) -> absl::Status {
    const std::string_view input = inputs.empty() ? std::string_view() : inputs[0];
    if (options.group_by && found != "files") {
      return InvalidArgument(input, ": is packed as ", found, ", and names are grouped of files only (--from files)");
    }
    const bool rows = found == "jsonl" || found == "table";
    for (const auto& [name, type] : options.types) {
      if (rows || IsByteString(type)) continue;
      return InvalidArgument("--type ", name, "=", TypeName(type), ": files are bytes, utf8, json, jpeg, png or image");
    }
    if (!options.key.empty() && !rows) {
      return InvalidArgument(input, ": is packed as ", found,
                             ", and only lines of JSON have a key to choose, and tables (--key)");
    }
    if (!(options.file.empty() && options.root.empty()) && found != "table") {
      return InvalidArgument(input, ": is packed as ", found, ", and only tables name files (--from table)");
    }
    if (options.files && rows) {
      return InvalidArgument(input, ": is packed as ", found, ", which takes its files as inputs, not by --files-from");
    }
    if (options.order && found != "imagefolder") {
      return InvalidArgument(input, ": is packed as ", found, ", and only image folders are listed in another order");
    }
    const bool datasets = found == "webdataset" || found == "mds";
    if ((datasets || rows || found == "coco") && !options.names.empty()) {
      return InvalidArgument(input, ": is packed as ", found, ", and --names is for files",
                             datasets ? ": give the tars themselves" : "");
    }
    if ((datasets || found == "coco") && operations::NameFilter(options).chooses()) {
      return InvalidArgument(input, ": is packed as ", found,
                             ", and --include and --exclude choose files: pack it with ",
                             "--from files, or choose samples afterwards (shardctl filter)");
    }
    return absl::OkStatus();
  };
  if (kind == "webdataset" || kind == "mds") {
    SHARDKIT_RETURN_IF_ERROR(other(kind));
    return OpenDatasets(kind, inputs, options, opened);
  }
  if (kind != "auto" && kind != "files" && kind != "imagefolder" && kind != "sa1b" && kind != "coco" &&
      kind != "jsonl" && kind != "table") {
    return InvalidArgument("unknown kind of input '", kind,
                           "': it is auto, files, imagefolder, sa1b, coco, jsonl, table, webdataset or mds");
  }
  if (inputs.empty()) return InvalidArgument("no input given");
  SHARDKIT_RETURN_IF_ERROR(operations::NameFilter::Check(options));
  if (kind == "coco") {
    SHARDKIT_RETURN_IF_ERROR(other(kind));
    if (!options.types.empty()) return NoTypes(inputs[0]);
    if (options.files) return InvalidArgument("--files-from: not with coco, whose annotation file names the images");
    return operations::CocoSource::Open(inputs, options, std::move(opened));
  }
  std::vector<operations::SourceInput> looked_at;
  const bool detected = kind == "auto" && !options.files;
  std::vector<std::string> notes;  // of what was found
  if (options.files) {
    if (kind == "auto") kind = "files";
    SHARDKIT_ASSIGN_OR_RETURN(looked_at, operations::ListedInput(kind, inputs, options, *given.file_system, &notes));
  } else if (detected) {
    SHARDKIT_ASSIGN_OR_RETURN(operations::DetectedInputs found, operations::DetectKind(inputs, options));
    kind = found.kind;
    looked_at = std::move(found.inputs);
    notes = std::move(found.notes);
    options.file = std::move(found.files);
    if (kind == "webdataset" || kind == "mds") {
      SHARDKIT_RETURN_IF_ERROR(other(kind));
      return OpenDatasets(kind, inputs, options, opened);
    }
  } else if (kind == "jsonl" || kind == "table") {
    SHARDKIT_ASSIGN_OR_RETURN(operations::Tables found, operations::FindTables(kind, inputs, options));
    looked_at = std::move(found.inputs);
    options.file = std::move(found.files);
  } else {
    SHARDKIT_ASSIGN_OR_RETURN(looked_at, operations::LookAtInputs(inputs, options));
    if (kind == "imagefolder") {
      SHARDKIT_RETURN_IF_ERROR(operations::FindClassesInArchives(*given.file_system, options, &looked_at, &notes));
    }
  }
  SHARDKIT_RETURN_IF_ERROR(other(kind));
  if (!options.root.empty()) SHARDKIT_RETURN_IF_ERROR(CheckRoot(options));
  SHARDKIT_ASSIGN_OR_RETURN(auto source, operations::OpenFileSource(kind, std::move(looked_at), options));
  source->SetFound(detected, std::move(notes));
  source->KeepFileSystem(std::move(opened));
  return source;
}

absl::StatusOr<std::unique_ptr<operations::FileSource>> operations::OpenFileSource(
    std::string_view kind, std::vector<operations::SourceInput> inputs, const SourceOptions& options,
    const std::vector<std::string>& classes) {
  if (kind == "files") return std::make_unique<operations::FilesSource>(std::move(inputs), options);
  if (kind == "jsonl" || kind == "table") {
    return std::make_unique<operations::TableSource>(kind, std::move(inputs), options);
  }
  if (kind == "sa1b" && !options.types.empty()) return NoTypes(inputs[0].path);
  if (kind == "sa1b") return std::make_unique<operations::Sa1bSource>(std::move(inputs), options);
  for (const operations::SourceInput& input : inputs) {
    if (!input.tar) continue;
    return InvalidArgument(input.path, ": neither a directory nor a tar (*.tar) or zip (*.zip)");
  }
  return operations::ImageFolderSource::Open(std::move(inputs), options, classes);
}

}  // namespace shardkit
