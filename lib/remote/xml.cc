#include "remote/xml.h"

#include <expat.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/exceptions.h"

namespace shardkit::remote {
namespace {

constexpr size_t kDeepest = 16;
constexpr size_t kLongestText = size_t{64} << 10;

struct Reading {
  XML_Parser parser;
  const std::function<absl::Status(std::string_view, std::string_view)>& take;
  std::string path;
  std::vector<std::pair<size_t, std::string>> open;  // length of the path before each element, and its text
  absl::Status status;

  // Runs code that may fail or throw, which must not pass through expat.
  template <typename Function>
  void Do(Function function) {
    if (!status.ok()) return;
    status = Guarded("an XML document", function);
    if (!status.ok()) XML_StopParser(parser, XML_FALSE);
  }
};

void Begin(void* data, const XML_Char* name, const XML_Char**) {
  auto& reading = *static_cast<Reading*>(data);
  reading.Do([&]() -> absl::Status {
    if (reading.open.size() == kDeepest) return DataLoss("the XML has more than ", kDeepest, " elements in each other");
    reading.open.emplace_back(reading.path.size(), "");
    std::string_view local(name);
    local.remove_prefix(local.rfind(':') + 1);
    if (!reading.path.empty()) reading.path += '/';
    reading.path += local;
    return absl::OkStatus();
  });
}

void Text(void* data, const XML_Char* text, int length) {
  auto& reading = *static_cast<Reading*>(data);
  reading.Do([&]() -> absl::Status {
    std::string& all = reading.open.back().second;
    if (all.size() + static_cast<size_t>(length) > kLongestText) {
      return DataLoss("the XML has more than ", kLongestText, " bytes of text in ", reading.path);
    }
    all.append(text, static_cast<size_t>(length));
    return absl::OkStatus();
  });
}

void End(void* data, const XML_Char*) {
  auto& reading = *static_cast<Reading*>(data);
  reading.Do([&]() -> absl::Status {
    const absl::Status taken = reading.take(reading.path, reading.open.back().second);
    reading.path.resize(reading.open.back().first);
    reading.open.pop_back();
    return taken;
  });
}

void DocumentType(void* data, const XML_Char*, const XML_Char*, const XML_Char*, int) {
  static_cast<Reading*>(data)->Do([]() -> absl::Status { return DataLoss("the XML has a document type"); });
}

struct FreeParser {
  void operator()(XML_Parser parser) const { XML_ParserFree(parser); }
};

// Newer versions of Expat deprecate the one function, and older ones lack the other.
template <typename Parser>
int64_t ByteIndex(Parser parser) {
  if constexpr (requires { XML_GetCurrentByteIndex64(parser); }) {
    return XML_GetCurrentByteIndex64(parser);
  } else {
    return XML_GetCurrentByteIndex(parser);
  }
}

}  // namespace

absl::Status ForEachXmlElement(std::string_view document,
                               const std::function<absl::Status(std::string_view path, std::string_view text)>& take) {
  if (document.size() > std::numeric_limits<int>::max()) return DataLoss("the XML has more than 2 GiB");
  const std::unique_ptr<XML_ParserStruct, FreeParser> parser(XML_ParserCreate("UTF-8"));
  if (!parser) return ResourceExhausted("no memory for an XML document");
  Reading reading{parser.get(), take, {}, {}, {}};
  XML_SetUserData(parser.get(), &reading);
  XML_SetElementHandler(parser.get(), &Begin, &End);
  XML_SetCharacterDataHandler(parser.get(), &Text);
  XML_SetStartDoctypeDeclHandler(parser.get(), &DocumentType);
  const XML_Status parsed = XML_Parse(parser.get(), document.data(), static_cast<int>(document.size()), XML_TRUE);
  if (!reading.status.ok()) return reading.status;
  if (parsed != XML_STATUS_OK) {
    return DataLoss("the XML is malformed at byte ", ByteIndex(parser.get()), ": ",
                    XML_ErrorString(XML_GetErrorCode(parser.get())));
  }
  return absl::OkStatus();
}

}  // namespace shardkit::remote
