#include "index_tars.h"

#include "interrupt.h"
#include "numbers.h"
#include "output.h"
#include "report.h"
#include "shardkit/filesystem.h"

namespace shardctl {
namespace {

Json TarJson(const std::string& path, const shardkit::TarIndexReport& report) {
  Json document;
  document["path"] = path;
  document["index"] = report.index_path;
  document["samples"] = report.samples;
  document["values"] = report.values;
  document["bytes"] = report.bytes;
  document["problem_count"] = report.problem_count;
  document["problems"] = Json::array();
  for (const shardkit::TarProblem& problem : report.problems) {
    document["problems"].push_back(
        {{"member", problem.member}, {"offset", problem.offset}, {"message", problem.message}});
  }
  return document;
}

// Problems of a readable tar are notes, not failures.
void NoteProblems(const std::string& path, const shardkit::TarIndexReport& report) {
  for (const shardkit::TarProblem& problem : report.problems) {
    const std::string member = problem.member.empty() ? "" : "member " + Quote(problem.member) + ", ";
    Note(Printable(path) + ": " + member + "byte " + std::to_string(problem.offset) + ": " + problem.message);
  }
  const uint64_t more = report.problem_count - report.problems.size();
  if (more > 0) Note(Printable(path) + ": " + Counted(more, "problem") + " more like these");
}

}  // namespace

absl::Status IndexTar(const std::string& path, bool dali, bool json, Json* tars) {
  const auto build = dali ? shardkit::BuildDaliIndex : shardkit::BuildTarIndex;
  const absl::StatusOr<shardkit::TarIndexReport> report = build(*shardkit::PosixFileSystem(), path, CancelOnSignal());
  if (!report.ok()) return report.status();
  NoteProblems(path, *report);
  tars->push_back(TarJson(path, *report));
  if (!json) {
    Stdout().Write("indexed " + Printable(path) + ": " + Counted(report->samples, "sample") + " of " +
                   Counted(report->values, "value") + ", " + FormatBytes(report->bytes) + "\n");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> CollectTars(const std::vector<std::string>& paths) {
  shardkit::FileSystem& file_system = *shardkit::PosixFileSystem();
  std::vector<std::string> tars;
  for (const std::string& path : paths) {
    const absl::StatusOr<shardkit::FileInfo> info = file_system.Stat(path);
    if (!info.ok()) return info.status();
    if (info->type != shardkit::FileType::kDirectory) {
      if (!shardkit::IsTarPath(path))
        return absl::InvalidArgumentError(path + ": is no tar: give tars, or directories of tars");
      tars.push_back(path);
      continue;
    }
    const absl::StatusOr<std::vector<std::string>> inside = shardkit::ListTars(file_system, path);
    if (!inside.ok()) return inside.status();
    if (inside->empty()) return absl::NotFoundError(path + ": holds no tar files");
    tars.insert(tars.end(), inside->begin(), inside->end());
  }
  return tars;
}

}  // namespace shardctl
