// SPDX-License-Identifier: BSD-3-Clause
//
// Which norms stand inside a sublayer, where a formula of x, f and norm cannot reach. Written once here, for the
// placement that asks for them, the sublayers that run them and the theory that predicts them.
#pragma once

namespace normplace {

/// Each is off by default. With H heads of K = D/H entries:
///
///     attention      q = norm(W_q x + b_q) for `query`, head by head; so k for `key` and v for `value`;
///                    then s o q and s o k for `query_key_scale`, one s for both;
///                    y = W_o norm(s o [softmax(q_h k_h^T / sqrt(K)) v_h]_h) + b_o, with the norm for `heads` and s
///                    for `head_scale`
///     feed-forward   y = W_2 norm(phi(W_1 x + b_1)) + b_2 for `hidden`
///
/// Sub-LN (Wang et al. 2022, arXiv:2210.06423) is `heads` and `hidden`; NormFormer (Shleifer et al. 2021,
/// arXiv:2110.09456) is `head_scale` and `hidden`; HybridNorm (Zhuo et al. 2025, arXiv:2503.04598) is `query`, `key`
/// and `value`; QK-norm (Henry et al. 2020, arXiv:2010.04245) is `query` and `key`; nGPT (Loshchilov et al. 2024,
/// arXiv:2410.01131) is these two with UnitNorm, and `query_key_scale`. A sublayer ignores the flags of the other kind,
/// so that one value serves a whole layer.
struct SublayerNorms {
    bool query = false;  ///< of each head's K queries, with a gain that the heads share
    bool key = false;    ///< of each head's K keys
    bool value = false;  ///< of each head's K values
    /// A learned factor for each of the D entries, H heads of K, sqrt(K) at the start: from lengths of 1 it makes
    /// entries whose mean square is 1.
    bool query_key_scale = false;
    bool heads = false;       ///< of all D entries of the heads' output, before W_o
    bool head_scale = false;  ///< a learned factor for each head's output, 1 at the start, before that norm
    bool hidden = false;      ///< of all F entries after the activation, before W_2

    constexpr bool operator==(const SublayerNorms&) const = default;
};

}  // namespace normplace
