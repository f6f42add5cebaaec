#include "codec/png.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <vector>

#include "base/errors.h"

namespace shardkit {
namespace {

// libpng's errors leave by longjmp; what they pass over has nothing to destroy.
class PngCheck {
 public:
  explicit PngCheck(std::string_view bytes) : bytes_(bytes) {}
  ~PngCheck() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngCheck(const PngCheck&) = delete;
  PngCheck& operator=(const PngCheck&) = delete;

  // False for damage, of which message() tells.
  bool Run() {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, OnError, OnWarning);
    info_ = png_ != nullptr ? png_create_info_struct(png_) : nullptr;
    if (info_ == nullptr) return false;
    if (setjmp(jump_) != 0) return false;  // NOLINT(cert-err52-cpp): libpng knows no other way
    png_set_read_fn(png_, this, OnRead);
    png_read_info(png_, info_);
    const int passes = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    row_.resize(png_get_rowbytes(png_, info_));
    const png_uint_32 height = png_get_image_height(png_, info_);
    for (int pass = 0; pass < passes; ++pass) {
      for (png_uint_32 y = 0; y < height; ++y) png_read_row(png_, row_.data(), nullptr);
    }
    png_read_end(png_, nullptr);
    return true;
  }

  const char* message() const { return message_; }

 private:
  static void OnError(png_structp png, png_const_charp message) {
    auto* const self = static_cast<PngCheck*>(png_get_error_ptr(png));
    std::strncpy(self->message_, message, sizeof(self->message_) - 1);
    std::longjmp(self->jump_, 1);  // NOLINT(cert-err52-cpp)
  }

  static void OnWarning(png_structp, png_const_charp) {}

  static void OnRead(png_structp png, png_bytep to, size_t length) {
    auto* const self = static_cast<PngCheck*>(png_get_io_ptr(png));
    if (length > self->bytes_.size()) png_error(png, "the file ends too early");
    std::memcpy(to, self->bytes_.data(), length);
    self->bytes_.remove_prefix(length);
  }

  std::string_view bytes_;  // not read yet
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::vector<png_byte> row_;
  char message_[128] = "no memory";
  std::jmp_buf jump_;
};

}  // namespace

absl::Status CheckPng(std::string_view bytes) {
  PngCheck check(bytes);
  return check.Run() ? absl::OkStatus() : DataLoss("png: ", check.message());
}

}  // namespace shardkit
