// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <normplace/analysis/stream_moments.hpp>

using namespace normplace;

TEST_CASE("one stream is its kernel, several have one for each ordered pair") {
    const StreamKernels one(TokenKernel{1.0, 0.5, 0.25});
    CHECK(one.streams() == 1);
    CHECK(one[0][1] == 0.5);
    StreamKernels three(3);
    for (std::size_t s = 0; s < 3; ++s)
        for (std::size_t t = 0; t < 3; ++t) three(s, t) = {static_cast<double>(10 * s + t)};
    CHECK(three(1, 2)[0] == 12.0);
    CHECK(three(2, 1)[0] == 21.0);
    CHECK(three[2][0] == 22.0);
    StreamFluctuations fluctuations(2);
    CHECK(fluctuations.size() == 2);
    fluctuations[1].relative = 0.5;
    CHECK(fluctuations[0].relative == 0.0);
}
