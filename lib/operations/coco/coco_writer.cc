#include "operations/coco/coco_writer.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "operations/sources/source_names.h"

namespace shardkit::operations {
namespace {

constexpr uint64_t kCopiedBytes = uint64_t{1} << 20;

std::string AnnotationsPath(const std::string& path) { return StrCat(path, ".annotations"); }

absl::Status AppendTo(WritableFile& file, std::string_view elements, bool* any) {
  if (elements.empty()) return absl::OkStatus();
  if (std::exchange(*any, true)) SHARDKIT_RETURN_IF_ERROR(file.Append(",\n"));
  return file.Append(elements);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CocoWriter>> CocoWriter::Create(FileSystem& file_system, const std::string& directory,
                                                               const Metadata& metadata) {
  const auto entry = [&](std::string_view name) {
    const auto found = metadata.find(std::string(name));
    return found == metadata.end() ? std::string() : found->second;
  };
  std::string name = entry(kCocoFile);
  if (name.empty() || BasePart(name) != name || !OutputName(directory, name).ok()) name = "annotations.json";
  std::unique_ptr<CocoWriter> writer(new CocoWriter(file_system, JoinPath(directory, name)));
  std::string members;
  if (const std::string text = entry(kCocoMembers); !text.empty()) {
    JsonTree tree;
    const auto parsed = tree.Parse(text);
    if (!parsed.ok()) return Annotate(parsed.status(), StrCat("metadata ", kCocoMembers));
    parsed->ForEachMember([&](std::string_view member, JsonElement value) {
      if (member == "annotations") writer->has_annotations_ = true;
      if (member != "images" && member != "annotations") (void)AppendJsonMember(member, value.Format(), &members);
      return true;
    });
  }
  (void)AppendJsonMember("images", "[\n", &members);
  SHARDKIT_ASSIGN_OR_RETURN(writer->file_, file_system.Create(writer->path_));
  SHARDKIT_ASSIGN_OR_RETURN(writer->annotations_, file_system.Create(AnnotationsPath(writer->path_)));
  SHARDKIT_RETURN_IF_ERROR(writer->file_->Append(members));
  return writer;
}

absl::Status CocoWriter::Append(std::string_view images, std::string_view annotations) {
  SHARDKIT_RETURN_IF_ERROR(AppendTo(*file_, images, &any_images_));
  return AppendTo(*annotations_, annotations, &any_annotations_);
}

absl::StatusOr<uint64_t> CocoWriter::Finish() {
  SHARDKIT_RETURN_IF_ERROR(annotations_->Close());
  const std::string path = AnnotationsPath(path_);
  SHARDKIT_RETURN_IF_ERROR(file_->Append("\n]"));
  if (has_annotations_ || any_annotations_) {
    SHARDKIT_RETURN_IF_ERROR(file_->Append(", \"annotations\": [\n"));
    SHARDKIT_ASSIGN_OR_RETURN(const auto annotations, file_system_.OpenForReading(path));
    std::string piece;
    for (uint64_t offset = 0; offset < annotations->size(); offset += piece.size()) {
      piece.resize(std::min(kCopiedBytes, annotations->size() - offset));
      SHARDKIT_RETURN_IF_ERROR(annotations->ReadAt(offset, piece));
      SHARDKIT_RETURN_IF_ERROR(file_->Append(piece));
    }
    SHARDKIT_RETURN_IF_ERROR(file_->Append("\n]"));
  }
  SHARDKIT_RETURN_IF_ERROR(file_->Append("}\n"));
  SHARDKIT_RETURN_IF_ERROR(file_->Close());
  SHARDKIT_RETURN_IF_ERROR(file_system_.RemoveFile(path));
  return file_->size();
}

}  // namespace shardkit::operations
