#include "loader/columns/assembly.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "codec/image/image_codec.h"
#include "foreign/mds/mds_encoding.h"
#include "shardkit/shard.h"

namespace shardkit::loader {
namespace {

// Limit for the bytes that a function makes of one sample.
constexpr uint64_t kMostTensorBytes = uint64_t{1} << 36;

bool TensorFits(const LoaderColumn& options) {
  uint64_t bytes = ScalarSize(options.dtype);
  for (const uint64_t size : options.shape) {
    if (!CheckedMultiply(bytes, size, &bytes) || bytes > kMostTensorBytes) return false;
  }
  return true;
}

bool FitsType(int64_t number, Type type) {
  const uint32_t bits = 8 * ScalarSize(type);
  if (type == Type::kBool) return number == 0 || number == 1;
  if (type >= Type::kU8 && type <= Type::kU64) return number >= 0 && (bits == 64 || number >> bits == 0);
  return bits == 64 || (number >= -(int64_t{1} << (bits - 1)) && number < int64_t{1} << (bits - 1));
}

}  // namespace

std::vector<AssemblyFailure> Assembly::TakeFailures() {
  std::lock_guard lock(mutex_);
  // Two columns of one sample may fail in any order. Keeps the failure of the last kind, then the one whose message
  // sorts first.
  std::ranges::sort(failures_, [](const AssemblyFailure& a, const AssemblyFailure& b) {
    if (a.sample != b.sample) return a.sample < b.sample;
    return a.kind != b.kind ? a.kind > b.kind : a.status.message() < b.status.message();
  });
  // clang 14 cannot compile what std::ranges::unique of libstdc++ 12 returns.
  const auto same = [](const AssemblyFailure& a, const AssemblyFailure& b) { return a.sample == b.sample; };
  failures_.erase(std::unique(failures_.begin(), failures_.end(), same), failures_.end());
  return std::exchange(failures_, {});
}

absl::Status ColumnAssembler::Describe(const absl::Status& status) const {
  return At(Annotate(status, StrCat("column \"", options_.name, "\"")), {.column = options_.name});
}

void ColumnAssembler::Begin(const Assembly& assembly, BatchLayout layout, Type dtype, ColumnMemory* memory) const {
  memory->column = BatchColumn{};
  memory->name = options_.name;
  memory->column.layout = layout;
  memory->column.dtype = dtype;
  memory->column.stored = stored_.type;
  memory->offsets.clear();
  memory->item_offsets.clear();
  memory->shapes.clear();
  memory->present.clear();
  memory->views.clear();
  memory->geometries.clear();
  memory->values.clear();
  if (!stored_.nullable) return;
  for (size_t i = 0; i < assembly.samples.size(); ++i) memory->present.push_back(Value(assembly, i).has_value());
}

absl::Status CheckTokens(const Column& column, const LoaderColumn& options) {
  const bool array = column.type == Type::kNdarray && (!column.shape || column.shape->size() == 1);
  if (!array && column.type != Type::kBytes) {
    return InvalidArgument("column \"", column.name, "\" of type ", TypeName(column.type),
                           " cannot be decoded as tokens, only one-dimensional arrays and bytes");
  }
  if (options.context == 0) return InvalidArgument("column \"", column.name, "\": a context of 0 tokens");
  const Type type = TokenType(column, options);
  const RangeKind kind = RangeKindOf(type);
  const bool whole = type != Type::kBool && (kind == RangeKind::kI64 || kind == RangeKind::kU64);
  if (ScalarSize(type) == 0 || !whole) {
    return InvalidArgument("column \"", column.name, "\": tokens are whole numbers, not ", TypeName(type));
  }
  if (array && options.dtype != Type::kU8 && options.dtype != type) {
    return InvalidArgument("column \"", column.name, "\": a dtype is for tokens stored as bytes, and these are ",
                           TypeName(type));
  }
  if (!FitsType(options.padding_token, type)) {
    return InvalidArgument("column \"", column.name, "\": a padding_token of ", options.padding_token, " does not fit ",
                           TypeName(type));
  }
  return absl::OkStatus();
}

absl::Status WithWayOn(const absl::Status& status) {
  return WithMessage(status,
                     StrCat(ToStd(status.message()),
                            "; with bad_samples=\"skip\" (BadSamples::kSkip) the loader leaves such samples out"));
}

namespace {

absl::StatusOr<std::unique_ptr<ColumnAssembler>> NewItems(size_t position, const Column& column,
                                                          const LoaderColumn& options, const SampleContext& context) {
  const Type type = options.decode == ColumnDecode::kItems ? column.dtype : Type::kF32;
  const RangeKind kind = RangeKindOf(type);
  const bool real = type == Type::kF32 || type == Type::kF64;
  const bool whole = kind == RangeKind::kI64 || kind == RangeKind::kU64;
  if (options.padding != 0 && !real && !(whole && FitsType(options.padding, type))) {
    return InvalidArgument("column \"", column.name, "\": a padding of ", options.padding, " does not fit ",
                           TypeName(type));
  }
  return NewItemsColumn(position, column, options, context);
}

// Whether the values can be images; of an array of any shape, its values tell.
bool HoldsImages(const Column& column) {
  if (IsImage(column.type) || column.type == Type::kBytes) return true;
  if (column.type != Type::kNdarray || column.dtype != Type::kU8) return false;
  if (!column.shape) return true;
  const std::vector<uint64_t>& shape = *column.shape;
  return shape.size() == 2 || (shape.size() == 3 && codec::IsChannelCount(shape[2]));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ColumnAssembler>> NewColumnAssembler(size_t position, const Column& column,
                                                                    const LoaderColumn& options,
                                                                    const SampleContext& context) {
  const GeometryOptions& geometry = context.geometry;
  const auto refuse = [&](std::string_view what) {
    return InvalidArgument("column \"", column.name, "\" of type ", TypeName(column.type), " cannot be decoded as ",
                           what);
  };
  if (!options.along.empty() && !context.items.contains(options.along)) {
    return InvalidArgument("column \"", column.name, "\": goes along with \"", options.along,
                           "\", which is no column of boxes or masks, or goes along with another");
  }
  switch (options.decode) {
    case ColumnDecode::kStored:
      if (column.type == Type::kRle) return NewMaskRunsColumn(position, column, options);
      return NewStoredColumn(position, column, options);
    case ColumnDecode::kViews:
      return NewViewsColumn(position, column, options);
    case ColumnDecode::kImage:
      if (const auto type = column.metadata.find(foreign::kMediaType);
          type != column.metadata.end() && type->second == foreign::kImageListMediaType) {
        return InvalidArgument("column \"", column.name, "\": each value is a list of image files; ",
                               "shardkit.image_list divides it, as a function of the column");
      }
      if (!HoldsImages(column)) {
        return refuse(
            "images, only jpeg, png, image, bytes, and arrays u8[height, width] or u8[height, width, 1, 3 or 4]");
      }
      if (absl::Status status = CheckAugmentOptions(options.augment); !status.ok()) {
        return Annotate(status, StrCat("column \"", column.name, "\""));
      }
      if (options.deferred && options.augment.Changes()) {
        return InvalidArgument("column \"", column.name,
                               "\": pixels of deferred images are as stored: leave augment out");
      }
      if (!codec::IsChannelCount(options.channels)) {
        return InvalidArgument("column \"", column.name, "\": ", options.channels,
                               " channels; give 1 (gray), 3 (RGB) or 4 (RGBA)");
      }
      if (options.channels == 4 && options.augment.Changes()) {
        return InvalidArgument("column \"", column.name, "\": augment is for 1 and 3 channels, not for RGBA");
      }
      if (absl::Status status = CheckPixelOutput(options.output); !status.ok()) {
        return Annotate(status, StrCat("column \"", column.name, "\""));
      }
      if (options.deferred && (options.output.planar || options.output.type != Type::kU8)) {
        return InvalidArgument("column \"", column.name, "\": deferred images come as stored, in no other output");
      }
      return NewImageColumn(position, column, options, context);
    case ColumnDecode::kLabels:
      if (column.type != Type::kPng && column.type != Type::kImage && column.type != Type::kBytes) {
        return refuse("label maps, only png, image and bytes");
      }
      if (RangeKindOf(options.dtype) != RangeKind::kI64 && RangeKindOf(options.dtype) != RangeKind::kU64) {
        return InvalidArgument("column \"", column.name, "\": class numbers are integers, not ",
                               TypeName(options.dtype));
      }
      if (!FitsType(options.label_fill, options.dtype)) {
        return InvalidArgument("column \"", column.name, "\": a fill of ", options.label_fill, " does not fit ",
                               TypeName(options.dtype));
      }
      return NewImageColumn(position, column, options, context);
    case ColumnDecode::kMasks:
    case ColumnDecode::kPackedMasks:
      if (column.type != Type::kRle) return refuse("masks, only rle");
      if (options.pad_masks && geometry.kind == GeometryOptions::Kind::kNative) {
        return InvalidArgument("column \"", column.name,
                               "\": pad_masks needs masks of one size; choose a geometry that is not native");
      }
      return NewMasksColumn(position, column, options, context);
    case ColumnDecode::kTokens:
      if (absl::Status status = CheckTokens(column, options); !status.ok()) return status;
      return NewTokensColumn(position, column, options);
    case ColumnDecode::kBoxes:
    case ColumnDecode::kPoints:
      if (column.type != Type::kNdarray || RangeKindOf(column.dtype) == RangeKind::kNone ||
          column.dtype == Type::kBool || column.dtype == Type::kF16 || column.dtype == Type::kBf16) {
        return refuse(options.decode == ColumnDecode::kBoxes ? "boxes, only arrays of numbers of 8 to 64 bits"
                                                             : "points, only arrays of numbers of 8 to 64 bits");
      }
      if (!context.image) {
        return InvalidArgument("column \"", column.name, "\": boxes and points lie on an image, and none is among the ",
                               "columns");
      }
      if (!(options.min_area >= 0) || !std::isfinite(options.min_area)) {
        return InvalidArgument("column \"", column.name, "\": a min_area of ", options.min_area, "; give 0 or more");
      }
      return NewItems(position, column, options, context);
    case ColumnDecode::kItems:
      if (column.type != Type::kNdarray || !column.has_known_type()) return refuse("items, only arrays");
      return NewItems(position, column, options, context);
    case ColumnDecode::kFunction:
      if (!options.function) return InvalidArgument("column \"", column.name, "\": no function was given");
      if (ScalarSize(options.dtype) == 0) {
        return InvalidArgument("column \"", column.name, "\": a function's dtype is a scalar type, not ",
                               TypeName(options.dtype));
      }
      if (!TensorFits(options)) {
        return InvalidArgument("column \"", column.name, "\": the function's shape is of more than ", kMostTensorBytes,
                               " bytes");
      }
      return NewFunctionColumn(position, column, options);
  }
  return InvalidArgument("column \"", column.name, "\": unknown way to decode it");
}

}  // namespace shardkit::loader
