// Images sorted into class directories: INPUT/CLASS/**/IMAGE.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operations/sources/file_source.h"
#include "shardkit/source.h"

namespace shardkit::operations {

class ImageFolderSource final : public FileSource {
 public:
  // `inputs` are directories. InvalidArgument when none has a class directory. `classes` are those to have, in the
  // order of their labels; empty: those that are found.
  static absl::StatusOr<std::unique_ptr<FileSource>> Open(std::vector<SourceInput> inputs, const SourceOptions& options,
                                                          const std::vector<std::string>& classes = {});

  std::string_view name() const override { return "imagefolder"; }
  absl::StatusOr<std::vector<Column>> InitialColumns() override;
  void Load(WorkUnit& unit, SampleBatch* batch) override;
  absl::StatusOr<uint64_t> Count() override;
  bool keys_ascend() const override { return ByPath() && FileSource::keys_ascend(); }
  absl::StatusOr<std::vector<std::string>> FindKey(std::string_view key) override {
    return FindKeyByName(key, NameSplit::kNever);
  }
  std::map<std::string, std::string> metadata() const override;
  std::vector<std::string> classes() const override {
    std::vector<std::string> names;
    for (const auto& [name, label] : labels_) names.push_back(name);
    return names;
  }

 protected:
  absl::StatusOr<std::unique_ptr<TreeUnit>> NextFromTree(size_t max_samples) override;
  void CloseInput() override;

 private:
  // The files of an input, sorted by the hashes of their keys, in few allocations whatever their number.
  struct Mixed {
    struct File {
      uint64_t hash = 0;
      uint64_t begin = 0;  // in `text`

      auto operator<=>(const File&) const = default;
    };
    std::vector<std::string> directories;
    std::string text;  // of each file its directory's number, the length of its name, its size, its kind, and the name
    std::vector<File> files;
    size_t next = 0;  // to list
  };

  ImageFolderSource(std::vector<SourceInput> inputs, std::map<std::string, int64_t, std::less<>> labels,
                    const SourceOptions& options);
  bool ByPath() const { return options().order == FolderOrder::kPath; }
  absl::StatusOr<std::unique_ptr<Mixed>> Mix();
  absl::Status LoadSample(const TreeUnit& unit, size_t i, ByteArena* arena, Sample* sample);
  absl::StatusOr<Type> ImageType(const Value& value, std::string_view name);
  absl::StatusOr<std::optional<Type>> FirstImageType();

  const std::map<std::string, int64_t, std::less<>> labels_;  // by class name
  std::unique_ptr<Mixed> mixed_;                              // the input being listed, unless by path
  ColumnTable images_;
  const Column label_;
  const Column class_name_;
};

// Where the class directories lie: an archive often has all in one directory.
struct ClassFolders {
  std::string path;
  std::string folder;  // as SourceInput::folder
  std::vector<std::string> names;
  bool images = false;  // beside them
};

std::string FoundWithin(const std::string& path, const ClassFolders& found);

// An archive is often made of one folder, which then is meant: nobody can name it as an input, as the directory that it
// becomes could be. It is such a folder, and no class, if it holds two or more folders and no images beside them. Adds
// to *notes. `given` is the file system in which an archive is a file.
absl::Status FindClassesInArchives(ReadableFileSystem& given, const SourceOptions& options,
                                   std::vector<SourceInput>* inputs, std::vector<std::string>* notes);

struct ImageFolder {
  ClassFolders classes;
  bool fits = false;  // two or more class directories, nothing beside them, and only images below
  std::string but;    // where it does not fit and yet looks like it: the first file that is wrong
};

absl::StatusOr<ImageFolder> LookAtImageFolder(const std::string& input, const SourceOptions& options);

}  // namespace shardkit::operations
