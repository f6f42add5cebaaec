// Decodes parts of JPEGs, scaled, with libjpeg's own interface.
#pragma once

#include <cstddef>
// jpeglib.h needs size_t and FILE.
#include <cstdio>

#include <jpeglib.h>

#include <csetjmp>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "shardkit/image.h"

namespace shardkit::codec {

// Reuses its memory. One thread at a time.
class JpegRegionReader {
 public:
  JpegRegionReader();
  ~JpegRegionReader();
  JpegRegionReader(const JpegRegionReader&) = delete;
  JpegRegionReader& operator=(const JpegRegionReader&) = delete;

  // Reads the headers; reads files of several scans completely. `info` is from ProbeJpeg and has passed CheckDecodable;
  // scale is 1 to 8, channels 1, 3 or 4. `bytes` must stay valid until Read is done. With `strict`, a warning of
  // libjpeg is an error, DataLoss.
  absl::Status Start(std::string_view bytes, const JpegInfo& info, int scale, int channels, bool strict);

  // libjpeg's first warning since Start, "JPEG: …"; empty when there was none. Borrowed until the next Start.
  std::string_view warning() const { return warning_; }

  // After Start: size in pixels of the whole image at its scale.
  uint32_t whole_width() const { return whole_width_; }
  uint32_t whole_height() const { return whole_height_; }

  // After Start: makes libjpeg deliver little more than columns [left, right). It then delivers the columns
  // [crop_left(), crop_left() + crop_width()).
  absl::Status Crop(uint32_t left, uint32_t right);
  uint32_t crop_left() const { return crop_left_; }
  uint32_t crop_width() const { return decompress_.output_width; }

  // After Crop, once: reads columns [left, right) of rows [top, bottom), not empty and inside the whole image. Row
  // after row goes to `out`, `stride` bytes apart.
  absl::Status Read(uint32_t left, uint32_t top, uint32_t right, uint32_t bottom, uint8_t* out, size_t stride);

 private:
  // libjpeg reports errors with longjmp. It may jump out of these steps, so they are written like C, without objects
  // that have a destructor.
  using Step = void (*)(JpegRegionReader* self);
  absl::Status Run(Step step);
  static void StartStep(JpegRegionReader* self);
  static void CropStep(JpegRegionReader* self);
  static void ReadStep(JpegRegionReader* self);
  // libjpeg-turbo 2.1 delivers uninitialised samples when it crops and scales images whose sampling factors differ by
  // four. Such images are decoded from the first row in full width.
  bool CanCrop() const;
  static void OnError(j_common_ptr info);
  static void OnMessage(j_common_ptr info, int level);
  static void OnProgress(j_common_ptr info);
  static JpegRegionReader* Self(j_common_ptr info) { return static_cast<JpegRegionReader*>(info->client_data); }

  jpeg_decompress_struct decompress_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf jump_;
  char message_[JMSG_LENGTH_MAX] = {};
  char warning_[8 + JMSG_LENGTH_MAX] = {};  // no string: libjpeg's frames, which exceptions cannot cross, lie above
  bool strict_ = false;

  // Arguments and results of the steps.
  std::string_view bytes_;
  int scale_ = 8;
  int channels_ = 3;
  uint32_t whole_width_ = 0;
  uint32_t whole_height_ = 0;
  uint32_t left_ = 0, top_ = 0, right_ = 0, bottom_ = 0;
  uint32_t crop_left_ = 0;  // first column that libjpeg delivers
  uint8_t* out_ = nullptr;
  size_t stride_ = 0;
  std::vector<uint8_t> row_;
};

}  // namespace shardkit::codec
