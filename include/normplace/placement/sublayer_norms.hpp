// SPDX-License-Identifier: BSD-3-Clause
//
// Norms inside a sublayer, where a formula of x, f and norm cannot reach: QK-norm, Sub-LN, NormFormer, HybridNorm.
#pragma once

namespace normplace {

/// Which of them there are. Attention has the first five, the feed-forward has `hidden`; a sublayer passes over those
/// that it has no place for.
struct SublayerNorms {
    bool query = false;       ///< of each head's K entries of W_q x + b_q, with one gain for all heads
    bool key = false;         ///< likewise
    bool value = false;       ///< likewise
    bool heads = false;       ///< of all D entries of the heads' joint output, before W_o
    bool head_scale = false;  ///< not a norm: a learned factor for each head's output, 1 at the start
    bool hidden = false;      ///< of the F entries after the activation, before W_2

    constexpr bool operator==(const SublayerNorms&) const = default;
};

}  // namespace normplace
