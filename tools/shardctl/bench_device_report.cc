#include "bench_device_report.h"

#include <vector>

#include "numbers.h"
#include "table.h"

namespace shardctl {
namespace {

using shardkit::CopyMeasurement;
using shardkit::DeviceMeasurements;
using shardkit::OverlapMeasurement;
using shardkit::UploadMeasurement;

std::string Rate(double bytes_per_second) { return FormatFixed(bytes_per_second / 1e9, 2) + " GB/s"; }
std::string Milliseconds(double seconds) { return FormatFixed(1000 * seconds, 2) + " ms"; }

// The figure, or "skipped" when there is none.
std::string Cell(const std::string& skipped, const std::string& figure) { return skipped.empty() ? figure : "skipped"; }

Json NullOr(const std::string& skipped) { return skipped.empty() ? Json(nullptr) : Json(skipped); }

Json NullOrNumber(const std::string& skipped, double value) { return skipped.empty() ? Json(value) : Json(nullptr); }

std::string CopiesText(const DeviceMeasurements& measurements, std::vector<std::string>* skipped) {
  Table table("rrrrrrr");
  table.AddRow({"size", "h2d pageable", "h2d pinned", "d2h pageable", "d2h pinned", "h2d ring", "ring / pinned"});
  const size_t kinds = measurements.uploads.empty() ? 0 : measurements.copies.size() / measurements.uploads.size();
  for (size_t i = 0; i < measurements.uploads.size(); ++i) {
    const UploadMeasurement& upload = measurements.uploads[i];
    std::vector<std::string> row{FormatBytes(upload.bytes)};
    std::string reason = upload.skipped;
    for (size_t k = 0; k < kinds; ++k) {
      const CopyMeasurement& copy = measurements.copies[i * kinds + k];
      row.push_back(Cell(copy.skipped, Rate(copy.bytes_per_second)));
      if (!copy.skipped.empty()) reason = copy.skipped;
    }
    row.push_back(Cell(upload.skipped, Rate(upload.figures.ring)));
    row.push_back(Cell(upload.skipped, FormatFixed(upload.figures.ratio, 3)));
    table.AddRow(row);
    if (!reason.empty()) skipped->push_back(FormatBytes(upload.bytes) + " skipped: " + reason);
  }
  return table.Format();
}

std::string OverlapsText(const DeviceMeasurements& measurements, std::vector<std::string>* skipped) {
  Table table("rrrrr");
  table.AddRow({"overlap", "transfer", "work", "both", "score"});
  for (const OverlapMeasurement& overlap : measurements.overlaps) {
    const auto& figures = overlap.figures;
    table.AddRow({FormatBytes(overlap.bytes), Cell(overlap.skipped, Milliseconds(figures.transfer_seconds)),
                  Cell(overlap.skipped, Milliseconds(figures.work_seconds)),
                  Cell(overlap.skipped, Milliseconds(figures.both_seconds)),
                  Cell(overlap.skipped, FormatFixed(figures.score, 3))});
    if (!overlap.skipped.empty())
      skipped->push_back("overlap of " + FormatBytes(overlap.bytes) + " skipped: " + overlap.skipped);
  }
  return table.Format();
}

double BytesPerSample(const shardkit::LoaderReport& report) {
  return report.samples > 0 ? static_cast<double>(report.uploaded_bytes) / static_cast<double>(report.samples) : 0;
}

}  // namespace

std::string DeviceText(const DeviceMeasurements& measurements) {
  std::string text = measurements.device.name + ": " + measurements.device.description;
  if (!measurements.device.driver_version.empty()) {
    text += ", driver for CUDA " + measurements.device.driver_version + ", built for CUDA " +
            measurements.device.runtime_version;
  }
  std::vector<std::string> skipped;
  text += "\n\n" + CopiesText(measurements, &skipped) + "\n" + OverlapsText(measurements, &skipped);
  for (const std::string& line : skipped) text += line + "\n";
  return text;
}

std::string UploadText(const shardkit::LoaderReport& report) {
  return "to the device: " + FormatBytes(static_cast<uint64_t>(BytesPerSample(report))) + " per sample, " +
         FormatBytes(report.uploaded_bytes) + " in all, " + FormatBytes(report.staged_bytes) +
         " of it copied once more for want of page-locked memory\n" +  //
         "on the device: copies " + FormatFixed(report.copy_seconds, 3) + " s, kernels " +
         FormatFixed(report.kernel_seconds, 3) + " s; page-locked memory at most " +
         FormatBytes(report.peak_pinned_memory) + ", device memory at most " + FormatBytes(report.peak_device_memory) +
         "\n";
}

Json DeviceJson(const BenchArguments& arguments, const DeviceMeasurements& measurements, const BenchRun* run) {
  Json json;
  json["name"] = measurements.device.name;
  json["description"] = measurements.device.description;
  json["memory_bytes"] = measurements.device.memory_bytes;
  json["driver"] =
      measurements.device.driver_version.empty() ? Json(nullptr) : Json(measurements.device.driver_version);
  json["runtime"] =
      measurements.device.runtime_version.empty() ? Json(nullptr) : Json(measurements.device.runtime_version);
  json["copies"] = Json::array();
  for (const CopyMeasurement& copy : measurements.copies) {
    json["copies"].push_back({{"bytes", copy.bytes},
                              {"direction", copy.to_device ? "h2d" : "d2h"},
                              {"memory", copy.pinned ? "pinned" : "pageable"},
                              {"bytes_per_second", NullOrNumber(copy.skipped, copy.bytes_per_second)},
                              {"skipped", NullOr(copy.skipped)}});
  }
  json["ring"] = Json::array();
  for (const UploadMeasurement& upload : measurements.uploads) {
    json["ring"].push_back({{"bytes", upload.bytes},
                            {"bytes_per_second", NullOrNumber(upload.skipped, upload.figures.ring)},
                            {"plain", NullOrNumber(upload.skipped, upload.figures.plain)},
                            {"ratio", NullOrNumber(upload.skipped, upload.figures.ratio)},
                            {"skipped", NullOr(upload.skipped)}});
  }
  json["overlap"] = Json::array();
  for (const OverlapMeasurement& overlap : measurements.overlaps) {
    json["overlap"].push_back({{"bytes", overlap.bytes},
                               {"transfer_seconds", NullOrNumber(overlap.skipped, overlap.figures.transfer_seconds)},
                               {"work_seconds", NullOrNumber(overlap.skipped, overlap.figures.work_seconds)},
                               {"both_seconds", NullOrNumber(overlap.skipped, overlap.figures.both_seconds)},
                               {"score", NullOrNumber(overlap.skipped, overlap.figures.score)},
                               {"skipped", NullOr(overlap.skipped)}});
  }
  json["epoch"] = nullptr;
  if (run == nullptr) return json;
  const shardkit::LoaderReport& report = run->report;
  json["epoch"] = {{"uploaded_bytes", report.uploaded_bytes},
                   {"bytes_per_sample", BytesPerSample(report)},
                   {"staged_bytes", report.staged_bytes},
                   {"copy_seconds", report.copy_seconds},
                   {"kernel_seconds", report.kernel_seconds},
                   {"arrival_seconds", run->arrival_seconds},
                   {"upload",
                    {{"threads", report.upload.threads},
                     {"busy", report.upload.busy},
                     {"starved", report.upload.starved},
                     {"blocked", report.upload.blocked}}},
                   {"pinned_budget", arguments.device.pinned_bytes},
                   {"peak_pinned", report.peak_pinned_memory},
                   {"peak_device", report.peak_device_memory}};
  return json;
}

}  // namespace shardctl
