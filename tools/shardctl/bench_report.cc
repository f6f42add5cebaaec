#include "bench_report.h"

#include "bench_device_report.h"
#include "json.h"
#include "numbers.h"
#include "output.h"
#include "report.h"
#include "table.h"

namespace shardctl {
namespace {

using shardkit::LoaderReport;
using shardkit::StageTimes;

double Quotient(double part, double whole) { return whole > 0 ? part / whole : 0; }
double Rate(uint64_t count, double seconds) { return Quotient(static_cast<double>(count), seconds); }

std::string Rated(double bytes_per_second) { return FormatFixed(bytes_per_second / 1e6, 1) + " MB/s"; }

// The loader's figures relative to the ceilings.
struct Ratios {
  explicit Ratios(const BenchResult& result)
      : samples_per_second(Rate(result.run.report.samples, result.run.report.seconds)),
        bytes_per_second(Rate(result.run.report.bytes, result.run.report.seconds)),
        read_per_second(Rate(result.run.report.bytes_read, result.run.report.seconds)),
        storage(Quotient(read_per_second, result.ceilings.storage.bytes_per_second)),
        memory_copy(Quotient(bytes_per_second, result.ceilings.memory_copy)) {
    const LoaderReport& report = result.run.report;
    // The first batch has no step before it.
    if (report.batches > 1) wait_per_step = report.consumer_wait_seconds / static_cast<double>(report.batches - 1);
    if (!result.ceilings.jpeg.has_value()) return;
    images_per_second = samples_per_second * result.ceilings.jpeg->present;
    jpeg = Quotient(images_per_second, result.ceilings.jpeg->all_threads);
  }

  double samples_per_second;
  double bytes_per_second;  // delivered
  double read_per_second;   // bytes, as stored
  double storage;
  double memory_copy;
  double wait_per_step = 0;  // seconds
  double images_per_second = 0;
  double jpeg = 0;
};

Json StageJson(const StageTimes& stage) {
  return {{"threads", stage.threads}, {"busy", stage.busy}, {"starved", stage.starved}, {"blocked", stage.blocked}};
}

std::vector<std::string> StageRow(const std::string& name, const StageTimes& stage) {
  const double total = stage.total();
  return {name, std::to_string(stage.threads), FormatPercent(Quotient(stage.busy, total)),
          FormatPercent(Quotient(stage.starved, total)), FormatPercent(Quotient(stage.blocked, total))};
}

const char* ModeName(shardkit::ReadMode mode) {
  constexpr const char* kNames[] = {"auto", "buffered", "mmap", "direct"};
  return kNames[static_cast<size_t>(mode)];
}

std::string CeilingsText(const BenchArguments& arguments, const BenchResult& result, const Ratios& ratios) {
  const Ceilings& ceilings = result.ceilings;
  Table table("lrrrl");
  table.AddRow({"ceiling", "machine", "loader", "ratio", ""});
  table.AddRow({"storage", Rated(ceilings.storage.bytes_per_second), Rated(ratios.read_per_second),
                FormatFixed(ratios.storage, 3),
                Counted(static_cast<uint64_t>(result.run.report.read.threads), "thread") + ", " +
                    ModeName(arguments.read.mode) +
                    (ceilings.storage_cold                                ? ", cold"
                     : arguments.read.mode == shardkit::ReadMode::kDirect ? ""
                                                                          : ", warm")});
  table.AddRow({"memory copy", Rated(ceilings.memory_copy), Rated(ratios.bytes_per_second),
                FormatFixed(ratios.memory_copy, 3), "1 thread"});
  if (ceilings.jpeg.has_value()) {
    table.AddRow({"libjpeg-turbo", FormatFixed(ceilings.jpeg->all_threads, 1) + " images/s",
                  FormatFixed(ratios.images_per_second, 1) + " images/s", FormatFixed(ratios.jpeg, 3),
                  Counted(static_cast<uint64_t>(ceilings.jpeg->threads), "thread") +
                      ", full size (one thread: " + FormatFixed(ceilings.jpeg->one_thread, 1) + ")"});
  }
  return table.Format();
}

}  // namespace

void PrintBench(const BenchArguments& arguments, const BenchResult& result) {
  if (arguments.paths.empty()) {
    Stdout().Write(DeviceText(*result.device));
    return;
  }
  const LoaderReport& report = result.run.report;
  const Ratios ratios(result);
  std::string text = result.device.has_value() ? DeviceText(*result.device) + "\n" : "";
  text += Counted(report.samples, "sample") + " in " + std::to_string(report.batches) +
          (report.batches == 1 ? " batch" : " batches") + ", " + FormatBytes(report.bytes) + " delivered, " +
          FormatBytes(report.bytes_read) + " read" +
          (report.bytes_from_cache == 0 ? "" : " (" + FormatBytes(report.bytes_from_cache) + " from cache to batch)") +
          ", in " + FormatFixed(report.seconds, 3) + " s\n";
  text += FormatFixed(ratios.samples_per_second, 1) + " samples/s, " + Rated(ratios.bytes_per_second) + "\n";
  text += "first batch after " + FormatFixed(1000 * (result.run.open_seconds + report.first_batch_seconds), 1) +
          " ms, of which opening took " + FormatFixed(1000 * result.run.open_seconds, 1) + " ms\n";
  text += "consumer waits " + FormatFixed(100 * report.wait_share(), 2) + " % of step time, " +
          FormatFixed(1000 * ratios.wait_per_step, 3) + " ms per step\n";
  text += Counted(report.requests, "request") + " for " + FormatBytes(report.bytes_requested) +
          (report.bytes_bridged == 0 ? "" : " (" + FormatBytes(report.bytes_bridged) + " between wanted ranges)") +
          ", " + Counted(report.round_trips, "round trip") + " one after the other\n";
  if (result.run.cache != shardkit::CacheTraffic{}) {
    text += FormatBytes(result.run.cache.bytes_found) + " of them were in the cache on disk, " +
            FormatBytes(result.run.cache.bytes_fetched) + " were fetched\n";
  }
  if (arguments.order.world_size > 1) {
    text += "all " + std::to_string(arguments.order.world_size) + " ranks read " +
            FormatFixed(result.run.read_amplification, 3) + " bytes for each that they need\n";
  }
  text += "\n";
  Table stages("lrrrr");
  stages.AddRow({"stage", "threads", "busy", "starved", "blocked"});
  stages.AddRow(StageRow("read", report.read));
  stages.AddRow(StageRow("decode", report.decode));
  if (result.device.has_value()) stages.AddRow(StageRow("upload", report.upload));
  text += stages.Format() + "\n";
  if (result.device.has_value()) text += UploadText(report);
  text += "memory: blocks at most " + FormatBytes(report.peak_block_memory) + ", batches at most " +
          FormatBytes(report.peak_batch_memory) + ", process " + FormatBytes(result.run.peak_resident) + "\n";
  if (report.auto_threads) text += "threads: " + report.threads_note + "\n";
  if (report.blocks_read_again > 0) {
    text += Counted(report.blocks_read_again, "block") + " of " + std::to_string(report.blocks_read) + " read again\n";
  }
  if (report.token_positions > 0) {
    text +=
        "sequence packing: " + FormatFixed(100 * Rate(report.tokens, static_cast<double>(report.token_positions)), 2) +
        " % of " + std::to_string(report.token_positions) + " positions are filled\n";
  }
  const shardkit::Diagnosis diagnosis = Diagnose(report);
  text += "\nbounded by: " + diagnosis.stage + " (" + diagnosis.reason + ")\n";
  text += "to change:  " + diagnosis.advice + "\n\n" + CeilingsText(arguments, result, ratios);
  Stdout().Write(text);
}

void PrintBenchJson(const BenchArguments& arguments, const BenchResult& result) {
  if (arguments.paths.empty()) {
    PrintJson({{"datasets", Json::array()}, {"device", DeviceJson(arguments, *result.device, nullptr)}});
    return;
  }
  const LoaderReport& report = result.run.report;
  const Ceilings& ceilings = result.ceilings;
  const Ratios ratios(result);
  const shardkit::Diagnosis diagnosis = Diagnose(report);
  Json document;
  document["datasets"] = arguments.paths;
  document["samples"] = report.samples;
  document["batches"] = report.batches;
  document["samples_per_epoch"] = result.run.plan_samples;
  document["bytes"] = report.bytes;
  document["bytes_read"] = report.bytes_read;
  document["bytes_from_cache"] = report.bytes_from_cache;
  document["blocks_read"] = report.blocks_read;
  document["blocks_read_again"] = report.blocks_read_again;
  document["requests"] = {{"count", report.requests},
                          {"bytes", report.bytes_requested},
                          {"bridged_bytes", report.bytes_bridged},
                          {"round_trips", report.round_trips}};
  document["cache"] = {{"bytes_found", result.run.cache.bytes_found},
                       {"bytes_fetched", result.run.cache.bytes_fetched}};
  document["read_amplification"] = result.run.read_amplification;
  document["seconds"] = report.seconds;
  document["samples_per_second"] = ratios.samples_per_second;
  document["bytes_per_second"] = ratios.bytes_per_second;
  document["open_seconds"] = result.run.open_seconds;
  document["first_batch_seconds"] = report.first_batch_seconds;
  document["wait"] = {{"share", report.wait_share()},
                      {"seconds", report.consumer_wait_seconds},
                      {"seconds_per_step", ratios.wait_per_step}};
  document["stages"] = {{"read", StageJson(report.read)}, {"decode", StageJson(report.decode)}};
  document["stages"]["read"]["file_seconds"] = report.file_seconds;
  document["threads_note"] = report.auto_threads ? Json(report.threads_note) : Json(nullptr);
  document["memory"] = {{"budget", arguments.memory},
                        {"blocks", report.block_memory},
                        {"batches", report.batch_memory},
                        {"peak_blocks", report.peak_block_memory},
                        {"peak_batches", report.peak_batch_memory},
                        {"peak_resident", result.run.peak_resident}};
  document["packing"] = nullptr;
  if (report.token_positions > 0) {
    document["packing"] = {{"tokens", report.tokens},
                           {"positions", report.token_positions},
                           {"efficiency", Rate(report.tokens, static_cast<double>(report.token_positions))}};
  }
  document["skipped"] = report.skipped;
  document["warned_images"] = report.warned_images;
  document["diagnosis"] = {{"stage", diagnosis.stage}, {"reason", diagnosis.reason}, {"advice", diagnosis.advice}};
  document["cold"] = arguments.cold && result.warm_reason.empty();
  document["cold_problem"] = result.warm_reason.empty() ? Json(nullptr) : Json(result.warm_reason);
  Json& machine = document["ceilings"];
  machine["storage"] = {{"bytes_per_second", ceilings.storage.bytes_per_second},
                        {"loader", ratios.read_per_second},
                        {"ratio", ratios.storage},
                        {"bytes", ceilings.storage.bytes},
                        {"threads", report.read.threads},
                        {"io", ModeName(arguments.read.mode)},
                        {"cold", ceilings.storage_cold}};
  machine["memory_copy"] = {
      {"bytes_per_second", ceilings.memory_copy}, {"loader", ratios.bytes_per_second}, {"ratio", ratios.memory_copy}};
  machine["jpeg"] = nullptr;
  if (ceilings.jpeg.has_value()) {
    machine["jpeg"] = {{"images_per_second", ceilings.jpeg->all_threads},
                       {"one_thread", ceilings.jpeg->one_thread},
                       {"threads", ceilings.jpeg->threads},
                       {"images", ceilings.jpeg->images},
                       {"loader", ratios.images_per_second},
                       {"ratio", ratios.jpeg}};
  }
  if (result.device.has_value()) document["device"] = DeviceJson(arguments, *result.device, &result.run);
  PrintJson(document);
}

}  // namespace shardctl
