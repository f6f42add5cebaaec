#include "operations/coco/json_pieces.h"

#include <algorithm>
#include <array>
#include <set>

#include "absl/status/statusor.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/status_macros.h"

namespace shardkit::operations {
namespace {

constexpr uint64_t kWindowBytes = uint64_t{1} << 20;
constexpr uint64_t kMostPieceBytes = uint64_t{256} << 20;

// Bytes that matter outside of texts, and those that end a number or a word.
constexpr std::array<bool, 256> kStructure = [] {
  std::array<bool, 256> table{};
  for (const unsigned char c : std::string_view("\"{}[]")) table[c] = true;
  return table;
}();
constexpr std::array<bool, 256> kBehindScalar = [] {
  std::array<bool, 256> table{};
  for (const unsigned char c : std::string_view(",]}: \t\r\n")) table[c] = true;
  return table;
}();

// A window over the file that moves forward.
class Window {
 public:
  explicit Window(const RandomAccessFile& file) : file_(file) {}

  uint64_t offset() const { return begin_ + at_; }
  uint64_t hash() const { return hash_.Digest(); }

  // The next byte that is not white space; '\0' at the end.
  absl::StatusOr<char> Peek() {
    while (true) {
      for (; at_ < bytes_.size(); ++at_) {
        const char c = bytes_[at_];
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t') return c;
      }
      SHARDKIT_ASSIGN_OR_RETURN(const bool more, Fill());
      if (!more) return '\0';
    }
  }
  void Pass() { ++at_; }  // the byte of Peek

  // The value that begins with the byte of Peek. Valid until the next call.
  absl::StatusOr<std::string_view> Value() {
    const uint64_t offset = this->offset();
    const auto opened = [](char c) { return c == '{' || c == '['; };
    size_t end = at_;
    size_t depth = 0;
    bool in_text = false;
    const bool scalar = bytes_[at_] != '"' && !opened(bytes_[at_]);
    while (true) {
      for (; end < bytes_.size(); ++end) {
        const char c = bytes_[end];
        if (scalar) {
          if (kBehindScalar[static_cast<unsigned char>(c)]) return Take(end);
        } else if (in_text) {
          if (c == '\\') {
            ++end;
          } else if (c == '"') {
            in_text = false;
            if (depth == 0) return Take(end + 1);
          }
        } else if (!kStructure[static_cast<unsigned char>(c)]) {
          continue;
        } else if (c == '"') {
          in_text = true;
        } else if (opened(c)) {
          ++depth;
        } else if (--depth == 0) {
          return Take(end + 1);
        }
      }
      const size_t passed = end - at_;  // one more than there are, behind a backslash
      if (passed > kMostPieceBytes) {
        return ResourceExhausted(file_.path(), ": byte ", offset, ": the value that begins here has more than 256 MiB");
      }
      SHARDKIT_ASSIGN_OR_RETURN(const bool more, Fill());
      if (!more && scalar) return Take(bytes_.size());
      if (!more) {
        return DataLoss(file_.path(), ": ends within the value that begins at byte ", offset,
                        ": the file is cut off; get it again");
      }
      end = at_ + passed;
    }
  }

 private:
  std::string_view Take(size_t end) {
    const std::string_view value = std::string_view(bytes_).substr(at_, end - at_);
    at_ = end;
    return value;
  }

  // Reads more behind what is left of the window; false at the end of the file.
  absl::StatusOr<bool> Fill() {
    const uint64_t read = begin_ + bytes_.size();
    bytes_.erase(0, at_);
    begin_ += at_;
    at_ = 0;
    const uint64_t kept = bytes_.size();
    const uint64_t more = std::min(std::max(kWindowBytes, kept), file_.size() - read);
    if (more == 0) return false;
    bytes_.resize(kept + more);
    SHARDKIT_RETURN_IF_ERROR(file_.ReadAt(read, std::span(bytes_).subspan(kept)));
    hash_.Update(std::string_view(bytes_).substr(kept));
    return true;
  }

  const RandomAccessFile& file_;
  StreamingHash hash_;
  std::string bytes_;
  uint64_t begin_ = 0;  // of bytes_, in the file
  size_t at_ = 0;       // in bytes_
};

}  // namespace

absl::Status ReadJsonPieces(const RandomAccessFile& file, std::span<const std::string_view> lists,
                            absl::FunctionRef<absl::Status(const JsonPiece&)> take, uint64_t* hash) {
  Window window(file);
  const auto expected = [&](std::string_view what) {
    return DataLoss(file.path(), ": byte ", window.offset(), ": expected ", what,
                    ": not an annotation file of COCO, which is one JSON object, or damaged");
  };
  const auto pass = [&](char c, std::string_view what) -> absl::Status {
    SHARDKIT_ASSIGN_OR_RETURN(const char next, window.Peek());
    if (next != c) return expected(what);
    window.Pass();
    return absl::OkStatus();
  };
  // Calls `one` for each part of a list or object, whose opening was passed.
  const auto each = [&](char close, auto one) -> absl::Status {
    SHARDKIT_ASSIGN_OR_RETURN(char next, window.Peek());
    if (next == close) {
      window.Pass();
      return absl::OkStatus();
    }
    while (true) {
      SHARDKIT_RETURN_IF_ERROR(one());
      SHARDKIT_ASSIGN_OR_RETURN(next, window.Peek());
      if (next != ',' && next != close) return expected(close == ']' ? "',' or ']'" : "',' or '}'");
      window.Pass();
      if (next == close) return absl::OkStatus();
    }
  };
  const auto value = [&](JsonPiece piece) -> absl::Status {
    SHARDKIT_ASSIGN_OR_RETURN(const char next, window.Peek());
    piece.offset = window.offset();
    if (std::string_view(",:]}").find(next) != std::string_view::npos || next == '\0') return expected("a value");
    SHARDKIT_ASSIGN_OR_RETURN(piece.text, window.Value());
    return take(piece);
  };
  std::set<std::string> seen;
  JsonTree tree;
  const auto read_member = [&]() -> absl::Status {
    SHARDKIT_ASSIGN_OR_RETURN(char next, window.Peek());
    if (next != '"') return expected("the name of a member");
    const uint64_t offset = window.offset();
    SHARDKIT_ASSIGN_OR_RETURN(const std::string_view quoted, window.Value());
    const auto parsed = tree.Parse(quoted);
    std::string_view name;
    if (!parsed.ok() || !parsed->Get(&name)) return DataLoss(file.path(), ": byte ", offset, ": is no JSON text");
    const auto [member, added] = seen.emplace(name);
    if (!added) return DataLoss(file.path(), ": byte ", offset, ": has \"", name, "\" twice");
    SHARDKIT_RETURN_IF_ERROR(pass(':', "':'"));
    SHARDKIT_ASSIGN_OR_RETURN(next, window.Peek());
    if (next != '[' || std::ranges::find(lists, *member) == lists.end()) return value({.member = *member});
    SHARDKIT_RETURN_IF_ERROR(take({.member = *member, .offset = window.offset(), .text = "[]"}));
    window.Pass();
    const std::string_view list = *member;
    return each(']', [&] { return value({.member = list, .element = true}); });
  };
  SHARDKIT_RETURN_IF_ERROR(pass('{', "'{'"));
  SHARDKIT_RETURN_IF_ERROR(each('}', read_member));
  SHARDKIT_ASSIGN_OR_RETURN(const char next, window.Peek());
  if (next != '\0' || window.offset() != file.size()) return expected("the end of the file");
  *hash = window.hash();
  return absl::OkStatus();
}

}  // namespace shardkit::operations
