// All kernels (kernels.h), for the host and the device alike; block_grid.h says how they are written.
#pragma once

#include "gpu/normalize_body.h"  // IWYU pragma: export
#include "gpu/rasterize_body.h"  // IWYU pragma: export
#include "gpu/resample_body.h"   // IWYU pragma: export
