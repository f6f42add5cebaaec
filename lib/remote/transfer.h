// One request on its way: its libcurl handle, and what has come back so far.
#pragma once

#include <curl/curl.h>

#include <memory>
#include <string>
#include <vector>

#include "remote/http_client.h"

namespace shardkit::remote {

struct EasyHandleDeleter {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
using EasyHandle = std::unique_ptr<CURL, EasyHandleDeleter>;

// For one thread. Does not move while its handle is in use.
class Transfer {
 public:
  Transfer(HttpClient::Id id, HttpRequest request, HttpClient::Done done);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  HttpClient::Id id() const { return id_; }
  CURL* handle() const { return handle_.get(); }

  // Makes the handle ready to be driven. The handle's earlier settings are lost, its connections are not.
  absl::Status Prepare(EasyHandle handle, const HttpClient::Options& options);

  // libcurl has ended it. True when it was redirected and prepared again, and is to be driven again.
  bool Redirected(const HttpClient::Options& options);

  // What came of it. `code` is libcurl's.
  absl::StatusOr<HttpResponse> Result(CURLcode code);

  // Calls the function that waits for the result, once. The handle comes back for another request.
  EasyHandle Finish(absl::StatusOr<HttpResponse> result);

 private:
  // Called before a request is sent, when it has a connection.
  static int CheckAddress(void* transfer, char* address, char* own_address, int port, int own_port);
  static size_t TakeHeader(char* bytes, size_t one, size_t count, void* transfer);
  static size_t TakeBody(char* bytes, size_t one, size_t count, void* transfer);

  // Remembers what the request sends in secret.
  void NoteSecrets();
  // The text without what was sent in secret: servers echo it.
  std::string Blanked(std::string text) const;

  absl::Status AddHeader(std::string_view line);
  absl::Status AddBody(std::string_view bytes);

  const HttpClient::Id id_;
  HttpRequest request_;
  HttpClient::Done done_;
  EasyHandle handle_;
  curl_slist* header_list_ = nullptr;
  HttpResponse response_;
  size_t header_bytes_ = 0;
  int redirects_ = 0;
  bool public_ = false;               // the URL that was asked for leads to a public address
  std::vector<std::string> secrets_;  // in headers and queries of requests before the present one
  absl::Status refused_;              // why a callback stopped the transfer
};

}  // namespace shardkit::remote
