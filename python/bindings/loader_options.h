// The options of loaders and plans, from Python's dicts.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "options.h"
#include "shardkit/loader.h"

namespace shardkit::bindings {

// From dicts with path, proportion, repeat and choose.
std::vector<LoaderDataset> LoaderDatasets(const nanobind::list& given);

// The options of PlanOptions.
void TakePlanOptions(OptionReader& reader, PlanOptions& options);

// All options of LoaderOptions that are not objects; `columns` and `geometry` are dicts of theirs.
LoaderOptions TakeLoaderOptions(const nanobind::dict& given);

}  // namespace shardkit::bindings
