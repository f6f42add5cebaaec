// Decodes parts of JPEGs by libjpeg's cropping and skipping. It decodes enough around the region for upsampling to see
// the same neighbours as in the whole image.
#include "codec/image/jpeg_region.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/errors.h"
#include "base/status_macros.h"
#include "codec/image/jpeg_pixels.h"

namespace shardkit::codec {

JpegRegionReader::JpegRegionReader() {
  decompress_.err = jpeg_std_error(&errors_);
  errors_.error_exit = OnError;
  errors_.emit_message = OnMessage;
  decompress_.client_data = this;
  const absl::Status created = Run([](JpegRegionReader* self) { jpeg_create_decompress(&self->decompress_); });
  if (!created.ok()) {
    jpeg_destroy_decompress(&decompress_);
    throw std::bad_alloc();
  }
  progress_.progress_monitor = OnProgress;
}

JpegRegionReader::~JpegRegionReader() { jpeg_destroy_decompress(&decompress_); }

absl::Status JpegRegionReader::Run(Step step) {
  if (setjmp(jump_) != 0) {  // NOLINT(cert-err52-cpp): libjpeg has no other way
    // Frees libjpeg's memory for the image, which can be much.
    jpeg_abort_decompress(&decompress_);
    return JpegError(message_);
  }
  step(this);
  return absl::OkStatus();
}

void JpegRegionReader::OnError(j_common_ptr info) {
  JpegRegionReader* const self = Self(info);
  info->err->format_message(info, self->message_);
  std::longjmp(self->jump_, 1);  // NOLINT(cert-err52-cpp)
}

void JpegRegionReader::OnMessage(j_common_ptr info, int level) {
  // Levels below zero are warnings: libjpeg goes on, where data is missing with made-up data.
  if (level >= 0) return;
  JpegRegionReader* const self = Self(info);
  if (self->strict_) OnError(info);
  if (self->warning_[0] != '\0') return;
  info->err->format_message(info, self->message_);
  std::snprintf(self->warning_, sizeof(self->warning_), "JPEG: %s", self->message_);
}

void JpegRegionReader::OnProgress(j_common_ptr info) {
  // A small progressive file can cause hours of work. The limit and the message are TurboJPEG's.
  constexpr int kMaxScans = 500;
  JpegRegionReader* const self = Self(info);
  if (self->decompress_.input_scan_number <= kMaxScans) return;
  std::snprintf(self->message_, sizeof(self->message_), "Progressive JPEG image has more than %d scans", kMaxScans);
  std::longjmp(self->jump_, 1);  // NOLINT(cert-err52-cpp)
}

void JpegRegionReader::StartStep(JpegRegionReader* self) {
  jpeg_decompress_struct* const info = &self->decompress_;
  jpeg_mem_src(info, reinterpret_cast<const unsigned char*>(self->bytes_.data()),
               static_cast<unsigned long>(self->bytes_.size()));
  jpeg_read_header(info, TRUE);
  info->scale_num = static_cast<unsigned>(self->scale_);
  info->scale_denom = 8;
  info->out_color_space = info->num_components == 4 ? JCS_CMYK
                          : self->channels_ == 1    ? JCS_GRAYSCALE
                          : self->channels_ == 3    ? JCS_RGB
                                                    : JCS_EXT_RGBA;
  jpeg_start_decompress(info);
}

absl::Status JpegRegionReader::Start(std::string_view bytes, const JpegInfo& info, int scale, int channels,
                                     bool strict) {
  jpeg_abort_decompress(&decompress_);  // ends the last image, if it was not finished
  decompress_.progress = &progress_;
  bytes_ = bytes;
  scale_ = scale;
  channels_ = channels;
  strict_ = strict;
  warning_[0] = '\0';
  SHARDKIT_RETURN_IF_ERROR(Run(StartStep));
  if (decompress_.image_width != info.width || decompress_.image_height != info.height ||
      decompress_.num_components != info.components) {
    return DataLoss("JPEG: more than one frame header, of different sizes");
  }
  whole_width_ = decompress_.output_width;
  whole_height_ = decompress_.output_height;
  return absl::OkStatus();
}

bool JpegRegionReader::CanCrop() const {
  return decompress_.max_h_samp_factor <= 2 && decompress_.max_v_samp_factor <= 2;
}

void JpegRegionReader::CropStep(JpegRegionReader* self) {
  jpeg_decompress_struct* const info = &self->decompress_;
  const auto mcu = static_cast<uint32_t>(info->max_h_samp_factor) * static_cast<uint32_t>(info->min_DCT_scaled_size);
  // Fancy upsampling uses the next sample; smoothing of progressive images uses the next two blocks.
  const uint32_t margin = (info->progressive_mode ? 3 : 1) * mcu;
  JDIMENSION left = self->left_ > margin ? self->left_ - margin : 0;
  JDIMENSION width =
      static_cast<JDIMENSION>(std::min<uint64_t>(uint64_t{self->right_} + margin, info->output_width) - left);
  if (!self->CanCrop()) {
    left = 0;
  } else if (left != 0 || width != info->output_width) {
    jpeg_crop_scanline(info, &left, &width);
  }
  self->crop_left_ = left;
}

void JpegRegionReader::ReadStep(JpegRegionReader* self) {
  jpeg_decompress_struct* const info = &self->decompress_;
  uint8_t* const row = self->row_.data();
  const uint32_t mcu =
      static_cast<uint32_t>(info->max_v_samp_factor) * static_cast<uint32_t>(info->min_DCT_scaled_size);
  // Decodes one full row of MCUs above the region, for upsampling at its upper edge.
  const uint32_t skipped = self->top_ / mcu > 1 ? (self->top_ / mcu - 1) * mcu : 0;
  if (skipped > 0 && self->CanCrop()) jpeg_skip_scanlines(info, skipped);
  JSAMPROW discard[1] = {row};
  while (info->output_scanline < self->top_) jpeg_read_scanlines(info, discard, 1);

  const bool convert = info->out_color_space == JCS_CMYK;
  const size_t offset = (self->left_ - self->crop_left_) * static_cast<size_t>(info->output_components);
  const uint32_t width = self->right_ - self->left_;
  const size_t bytes = width * static_cast<size_t>(self->channels_);
  const bool direct = !convert && info->output_width == width;
  uint8_t* out = self->out_;
  for (uint32_t y = self->top_; y < self->bottom_; ++y, out += self->stride_) {
    JSAMPROW to[1] = {direct ? out : row};
    jpeg_read_scanlines(info, to, 1);
    if (convert) {
      ConvertCmyk(row + offset, width, self->channels_, out);
    } else if (!direct) {
      std::memcpy(out, row + offset, bytes);
    }
  }
  if (self->bottom_ == self->whole_height_) {
    jpeg_finish_decompress(info);
  } else {
    jpeg_abort_decompress(info);
  }
}

absl::Status JpegRegionReader::Crop(uint32_t left, uint32_t right) {
  left_ = left;
  right_ = right;
  return Run(CropStep);
}

absl::Status JpegRegionReader::Read(uint32_t left, uint32_t top, uint32_t right, uint32_t bottom, uint8_t* out,
                                    size_t stride) {
  left_ = left;
  top_ = top;
  right_ = right;
  bottom_ = bottom;
  out_ = out;
  stride_ = stride;
  row_.resize(decompress_.output_width * static_cast<size_t>(decompress_.output_components));
  return Run(ReadStep);
}

}  // namespace shardkit::codec
