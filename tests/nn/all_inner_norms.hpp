// SPDX-License-Identifier: BSD-3-Clause
//
// Every norm that a sublayer may have inside, at once: attention takes its own, and the feed-forward sublayer its own.
#pragma once

#include <normplace/placement/sublayer_norms.hpp>

namespace normplace::test {

inline constexpr SublayerNorms all_inner_norms = {.query = true,
                                                  .key = true,
                                                  .value = true,
                                                  .query_key_scale = true,
                                                  .heads = true,
                                                  .head_scale = true,
                                                  .hidden = true};

}  // namespace normplace::test
