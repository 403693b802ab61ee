// SPDX-License-Identifier: BSD-3-Clause
//
// Self-attention in moments: the covariances of its output from those of its input, and the gradients of its matrices
// from those of its output. Weights are independent Gaussians, so the scores are too: the score of query i with key j
// covaries with that of i' with j' as s_q s_k K_ii' K_jj'.
//
// Exchangeable tokens (attention_exchangeable.hpp) are averaged exactly over the softmax; other tokens
// (attention_blocks.hpp) to second order in the scores, each term carried to the exact value that it has for
// exchangeable tokens of the same score variance.
#pragma once

#include <cmath>
#include <cstddef>

#include <normplace/analysis/softmax_moments.hpp>
#include <normplace/analysis/token_kernel.hpp>
#include <normplace/placement/sublayer_norms.hpp>

namespace normplace {

/// Width D, and fan-in times variance of W_q, W_k, W_v and W_o (1 where there is no W_o).
struct AttentionScales {
    double width = 1.0;
    double query = 0.0, key = 0.0, value = 0.0, out = 1.0;
    bool output_projection = true;
    bool causal = false;
    double heads = 1.0;
    SublayerNorms norms{};  ///< inside
    double epsilon = 1e-5;  ///< of these
};

/// Expected squared gradient norms of attention's parameters. That of the key's bias is 0, since it moves all scores of
/// a query alike, unless a norm follows it: then there is no theory, and it is NaN.
struct AttentionSquares {
    double wq = 0.0, wk = 0.0, wv = 0.0, wo = 0.0;
    double bq = 0.0, bk = 0.0, bv = 0.0, bo = 0.0;
};

namespace detail {

/// What backward needs of forward.
struct AttentionState {
    TokenKernel heads;                    // covariance of the heads' output, before W_o
    TokenKernel mean, mean2;              // A K A^T and A (K o K) A^T; blocks only
    std::vector<SoftmaxMoments> softmax;  // for each class of queries
    double score_variance = 0.0;          // the largest variance of one query's scores over its keys
};

}  // namespace detail
}  // namespace normplace
