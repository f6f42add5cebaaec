// Blocks that have lost their header, of which the footer has a copy.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "dataset/repair/repair_footer.h"
#include "dataset/repair/repair_header.h"
#include "dataset/repair/repair_scan.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"

namespace shardkit::dataset {

// Removes from *scan the copies themselves, which look like blocks whose chunks are damaged. Then adds to *scan the
// blocks of the directory that were not found whole, where all their chunks are whole behind the place of the header.
// What was found within such a block is removed: it is part of a value. *file then has these blocks behind its end.
// Says in footer->problems which they are.
absl::Status RestoreHeaders(const HeaderFinding& header, const Cancellation* cancellation, FooterFinding* footer,
                            ScanResult* scan, std::unique_ptr<RandomAccessFile>* file);

}  // namespace shardkit::dataset
