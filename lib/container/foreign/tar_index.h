// Finding out where the samples of a tar lie: from its sidecar, or from its headers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "container/foreign/tar_archive.h"
#include "format/foreign/tar_index_layout.h"
#include "shardkit/filesystem.h"
#include "shardkit/schema.h"
#include "shardkit/tar_index.h"

namespace shardkit {

// Immutable once made.
struct TarContents {
  format::TarIndex index;  // of a compressed tar, offsets in the decompressed one; tar_length is the file's
  TarCompression compression = TarCompression::kNone;
  // The DALI index that these come from, or empty. Its word is not enough: see CheckTarMembers.
  std::string dali_index;
  // Where only a part of the tar was taken: why no more of it, and the key of the sample there, or the tar's name.
  absl::Status cut;
  std::string cut_key;
};

// Goes over the headers. DataLoss for a damaged tar, or a sample that has an extension twice; Unimplemented
// for what a schema cannot hold (names that are not UTF-8, too many columns) and for sparse members. What
// else is wrong is added to *problems, which may be null. ResourceExhausted for a compressed tar with more members than
// a quarter of `max_decompression` bytes beyond its own size can list. With `keep_cut` damage ends the tar instead: the
// samples before it are taken, but for the last one when nothing shows that it is whole.
absl::StatusOr<TarContents> ScanTar(const RandomAccessFile& file, uint64_t max_decompression,
                                    std::vector<TarProblem>* problems, bool keep_cut = false);

// Samples whose key an earlier one had, with which they do not stand together.
std::vector<TarProblem> FindRepeatedKeys(const format::TarIndex& index);

// From the sidecar when there is one, or else from a DALI index, or else from the headers. DataLoss when the one
// there is is damaged or of another tar; with `keep_cut`, when the tar itself is damaged, what ScanTar takes of it.
absl::StatusOr<std::shared_ptr<TarContents>> LoadTarContents(FileSystem& file_system, const std::string& path,
                                                             uint64_t max_decompression, bool keep_cut = false);

// The key, and the columns of the index, all nullable. A type is what the extension promises: jpeg, png, or
// else bytes.
absl::StatusOr<Schema> TarSchema(const format::TarIndex& index);

// Of the file's first and last bytes; see format::TarIdentity.
absl::StatusOr<uint64_t> ReadTarIdentity(const RandomAccessFile& file);

}  // namespace shardkit
