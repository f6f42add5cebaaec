// Tests of kernels run once with each instruction set that this processor has, and with plain code.
#pragma once

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <string>

namespace shardkit::testing {

// A suite is a class derived from it, with SHARDKIT_ON_EACH_TARGET for the class.
class OnEachTarget : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

inline std::string TargetName(const ::testing::TestParamInfo<int64_t>& info) { return hwy::TargetName(info.param); }

#define SHARDKIT_ON_EACH_TARGET(Suite) \
  INSTANTIATE_TEST_SUITE_P(On, Suite, ::testing::ValuesIn(hwy::SupportedAndGeneratedTargets()), testing::TargetName)

}  // namespace shardkit::testing
