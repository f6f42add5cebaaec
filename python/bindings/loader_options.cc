#include "loader_options.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "status.h"

namespace shardkit::bindings {
namespace {

namespace nb = nanobind;

GeometryOptions TakeGeometry(const nb::dict& given) {
  OptionReader reader(given, "geometry");
  GeometryOptions geometry;
  using Kind = GeometryOptions::Kind;
  reader.TakeChoice<Kind>("kind", geometry.kind,
                          {{"native", Kind::kNative},
                           {"resize", Kind::kResize},
                           {"center_crop", Kind::kCenterCrop},
                           {"random_resized_crop", Kind::kRandomResizedCrop},
                           {"random_crop", Kind::kRandomCrop},
                           {"longest_side", Kind::kLongestSide},
                           {"letterbox", Kind::kLetterbox}});
  reader.Take("width", geometry.width);
  reader.Take("height", geometry.height);
  reader.Take("resize", geometry.resize);
  reader.Take("min_scale", geometry.crop.min_scale);
  reader.Take("max_scale", geometry.crop.max_scale);
  reader.Take("min_ratio", geometry.crop.min_ratio);
  reader.Take("max_ratio", geometry.crop.max_ratio);
  reader.Take("padding", geometry.window.padding);
  reader.Take("min_zoom", geometry.window.min_zoom);
  reader.Take("max_zoom", geometry.window.max_zoom);
  reader.Take("flip_probability", geometry.flip_probability);
  reader.Take("vertical_flip_probability", geometry.vertical_flip_probability);
  reader.Take("rotate90", geometry.rotate90);
  reader.Take("apply_orientation", geometry.apply_orientation);
  reader.Take("stream", geometry.stream);
  reader.Finish();
  return geometry;
}

LoaderColumn TakeColumn(const nb::dict& given) {
  OptionReader reader(given, "column");
  LoaderColumn column;
  reader.Take("name", column.name);
  reader.TakeChoice<ColumnDecode>("decode", column.decode,
                                  {{"stored", ColumnDecode::kStored},
                                   {"views", ColumnDecode::kViews},
                                   {"image", ColumnDecode::kImage},
                                   {"labels", ColumnDecode::kLabels},
                                   {"masks", ColumnDecode::kMasks},
                                   {"packed_masks", ColumnDecode::kPackedMasks},
                                   {"boxes", ColumnDecode::kBoxes},
                                   {"points", ColumnDecode::kPoints},
                                   {"items", ColumnDecode::kItems},
                                   {"tokens", ColumnDecode::kTokens}});
  const Choices<BoxFormat> formats = {
      {"xywh", BoxFormat::kXywh}, {"xyxy", BoxFormat::kXyxy}, {"cxcywh", BoxFormat::kCxcywh}};
  reader.TakeChoice<BoxFormat>("box_format", column.box_format, formats);
  reader.TakeChoice<BoxFormat>("output_boxes", column.output_boxes, formats);
  reader.Take("clip", column.clip);
  reader.Take("min_area", column.min_area);
  reader.Take("upright", column.upright);
  reader.Take("along", column.along);
  reader.Take("most", column.most);
  reader.TakeChoice<ItemChoice>(
      "choose", column.choose,
      {{"first", ItemChoice::kFirst}, {"random", ItemChoice::kRandom}, {"largest", ItemChoice::kLargest}});
  reader.Take("padding", column.padding);
  reader.Take("source", column.source);
  reader.Take("of", column.of);
  std::optional<nb::dict> geometry;
  reader.Take("geometry", geometry);
  if (geometry) column.geometry = TakeGeometry(*geometry);
  reader.Take("deferred", column.deferred);
  reader.Take("channels", column.channels);
  reader.Take("scaled_decode", column.image.scaled_decode);
  reader.Take("reduce_depth", column.image.reduce_depth);
  reader.Take("strict", column.image.strict);
  reader.Take("fill", column.image.fill);
  reader.TakeChoice<Interpolation>("interpolation", column.image.interpolation,
                                   {{"bilinear", Interpolation::kBilinear}, {"bicubic", Interpolation::kBicubic}});
  AugmentOptions& augment = column.augment;
  std::array<double, 4> jitter = {0, 0, 0, 0};
  reader.Take("jitter", jitter);
  augment.brightness = jitter[0];
  augment.contrast = jitter[1];
  augment.saturation = jitter[2];
  augment.hue = jitter[3];
  reader.Take("jitter_probability", augment.jitter_probability);
  reader.Take("grayscale", augment.grayscale_probability);
  reader.Take("erasing", augment.erase_probability);
  reader.Take("max_memory", column.image.max_memory);
  std::string dtype(TypeName(column.dtype)), layout = "hwc";
  std::array<float, 3> mean = {0, 0, 0}, deviation = {1, 1, 1};
  reader.Take("dtype", dtype);
  reader.Take("layout", layout);
  reader.Take("mean", mean);
  reader.Take("std", deviation);
  column.dtype = TypeNamed(dtype);
  if (column.decode == ColumnDecode::kImage) {
    column.output.planar = layout == "chw";
    if (column.dtype != Type::kU8) {
      column.output =
          NormalizedOutput(column.dtype, {mean[0], mean[1], mean[2]}, {deviation[0], deviation[1], deviation[2]});
      for (size_t c = 0; c < 3; ++c) {
        augment.erased[c] = static_cast<uint8_t>(std::clamp(std::lround(mean[c] * 255), 0L, 255L));
      }
    }
  }
  reader.Take("label_fill", column.label_fill);
  reader.Take("pad_masks", column.pad_masks);
  reader.Take("context", column.context);
  reader.TakeChoice<TokenPacking>("mode", column.packing,
                                  {{"best_fit", TokenPacking::kBestFit}, {"concat", TokenPacking::kConcat}});
  reader.Take("padding_token", column.padding_token);
  reader.Finish();
  return column;
}

}  // namespace

std::vector<LoaderDataset> LoaderDatasets(const nb::list& given) {
  std::vector<LoaderDataset> datasets;
  for (const nb::handle each : given) {
    OptionReader reader(nb::cast<nb::dict>(each), "dataset");
    LoaderDataset dataset;
    reader.Take("path", dataset.path);
    reader.Take("proportion", dataset.proportion);
    std::vector<std::pair<uint64_t, double>> changes;
    reader.Take("changes", changes);
    for (const auto& [epoch, proportion] : changes) dataset.changes.push_back({epoch, proportion});
    reader.Take("repeat", dataset.repeat);
    reader.Take("choose", dataset.choose);
    reader.Take("generation", dataset.generation);
    dataset.selection = TakeSelection(reader);
    reader.Take("balance", dataset.balance);
    reader.Take("replacement", dataset.replacement);
    nb::bytes weights("", 0);  // of an array of float64
    reader.Take("weights", weights);
    if (weights.size() > 0) {
      std::vector<double> numbers(weights.size() / sizeof(double));
      std::memcpy(numbers.data(), weights.data(), numbers.size() * sizeof(double));
      dataset.weights = std::make_shared<const std::vector<double>>(std::move(numbers));
    }
    reader.Finish();
    datasets.push_back(std::move(dataset));
  }
  return datasets;
}

void TakePlanOptions(OptionReader& reader, PlanOptions& options) {
  reader.Take("batch_size", options.batch_size);
  reader.Take("seed", options.seed);
  reader.TakeChoice<SampleOrder>("order", options.order,
                                 {{"sequential", SampleOrder::kSequential},
                                  {"shuffled", SampleOrder::kShuffled},
                                  {"window", SampleOrder::kWindow}});
  reader.TakeChoice<Remainder>("remainder", options.remainder,
                               {{"keep", Remainder::kKeep}, {"drop", Remainder::kDrop}, {"pad", Remainder::kPad}});
  reader.Take("shuffle_buffer_bytes", options.shuffle_buffer_bytes);
  reader.Take("lanes", options.lanes);
  reader.Take("expected_world_size", options.expected_world_size);
  reader.Take("locality", options.locality);
  reader.Take("epoch_samples", options.epoch_samples);
}

LoaderOptions TakeLoaderOptions(const nb::dict& given) {
  OptionReader reader(given, "Loader");
  LoaderOptions options;
  TakePlanOptions(reader, options.plan);
  reader.Take("rank", options.rank);
  reader.Take("world_size", options.world_size);
  reader.Take("empty_batches", options.empty_batches);
  reader.Take("first_epoch", options.first_epoch);
  reader.Take("epochs", options.epochs);
  reader.TakeChoice<MissingColumns>("missing", options.missing,
                                    {{"fail", MissingColumns::kFail}, {"absent", MissingColumns::kAbsent}});
  reader.Take("keys", options.keys);
  reader.TakeChoice<BadSamples>("bad_samples", options.bad_samples,
                                {{"fail", BadSamples::kFail}, {"skip", BadSamples::kSkip}});
  reader.Take("memory_bytes", options.memory_bytes);
  reader.Take("decode_threads", options.decode_threads);
  reader.Take("read_threads", options.read_threads);
  reader.Take("device", options.device);
  reader.Take("device_geometry", options.device_geometry);
  reader.Take("pin_memory", options.pin_memory);
  reader.Take("pinned_bytes", options.pinned_bytes);
  reader.Take("device_bytes", options.device_bytes);
  reader.Take("device_batches", options.device_batches);
  reader.Take("trace", options.trace);
  std::string mode = "auto";
  reader.Take("mode", mode);
  options.read.mode = ModeNamed(mode);
  std::string verify = "every";
  reader.Take("verify", verify);
  options.read.verify = VerifyNamed(verify);
  reader.Take("verify_listed_hashes", options.read.verify_listed_hashes);
  reader.Take("max_decompression", options.read.max_decompression);
  std::string cursor;
  reader.Take("cursor", cursor);
  if (!cursor.empty()) options.cursor = ValueOrRaise(ParseCursor(cursor));
  nb::dict geometry;
  reader.Take("geometry", geometry);
  options.geometry = TakeGeometry(geometry);
  nb::list columns;
  reader.Take("columns", columns);
  for (const nb::handle column : columns) options.columns.push_back(TakeColumn(nb::cast<nb::dict>(column)));
  reader.Finish();
  return options;
}

}  // namespace shardkit::bindings
