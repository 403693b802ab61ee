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
#include <limits>

#include <normplace/analysis/fluctuation.hpp>
#include <normplace/analysis/softmax_table.hpp>
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

    /// K. Without bound where a norm gives queries or keys one length, as far as the scores' variance fluctuates with
    /// it.
    double head_width() const {
        return norms.query || norms.key ? std::numeric_limits<double>::infinity() : width / heads;
    }
};

/// Expected squared gradient norms of attention's parameters. That of the key's bias is 0, since it moves all scores of
/// a query alike, unless a norm follows it: then there is no theory, and it is NaN.
struct AttentionSquares {
    double wq = 0.0, wk = 0.0, wv = 0.0, wo = 0.0;
    double bq = 0.0, bk = 0.0, bv = 0.0, bo = 0.0;
};

namespace detail {

/// How the fluctuations of attention's output (fluctuation.hpp) follow those of the queries' tokens. To first order in
/// the scores a query's output differs from another's by M(x_i - x_j), with M the sum over heads of W_o W_v C W_k^T W_q
/// and C the keys' covariance: that `share` of the differences follows the tokens, and tr (M M^T)^2 adds 1/D for W_o
/// and for each of the two inner widths of the heads, and 1/D over the heads for that of C. The rest is a weighted mean
/// of the values by weights of its own.
class AttentionFluctuation {
public:
    /// @param keys how many, on average
    /// @param keys_relative how the covariances of their tokens fluctuate
    /// @param following d heads_ij / d in_ij, on average over pairs of different queries
    /// @param heads, output means of the heads' covariances, and of those behind the norm of heads and W_o
    void set(const AttentionScales& scales, double keys, const Fluctuation& queries, double keys_relative,
             double following, const WithinMean& heads, const WithinMean& output) {
        const double spread = heads.same - heads.different, followed = following * queries.spread;
        share_ = spread > 0.0 ? std::fmin(followed / spread, 1.0) : 0.0;
        transfer_ = queries.spread > 0.0 ? share_ * (output.same - output.different) / queries.spread : 0.0;
        // tr C^4 / (tr C^2)^2 of n keys that scatter in 1/relative dimensions, times these.
        const double c = keys_relative > 0.0 ? 1.0 / (keys * keys_relative) : 0.0;
        const double covariance = (1.0 + c * (6.0 + c * (6.0 + c))) / ((1.0 + c) * (1.0 + c));
        const double follows = (3.0 + covariance / scales.heads) / scales.width;
        const double differs = 2.0 / scales.width + keys_relative, rest = 1.0 - share_;
        fresh_ = share_ * share_ * follows + rest * rest * differs + 2.0 * share_ * rest * 3.0 / scales.width;
    }
    double transfer() const { return transfer_; }
    double fresh() const { return fresh_; }

private:
    double share_ = 0.0, transfer_ = 0.0, fresh_ = 0.0;
};

/// What backward needs of forward.
struct AttentionState {
    TokenKernel heads;                    // covariance of the heads' output, before W_o
    TokenKernel mean, square;             // M and T of attention_blocks.hpp
    std::vector<SoftmaxMoments> softmax;  // for each class of queries
    double pair_variance = 0.0;   // of the covariance of two different tokens, relative to their difference squared
    TokenKernel following;        // d heads_ij / d input_ij, of different queries
    double score_variance = 0.0;  // the largest variance of one query's scores over its keys
};

}  // namespace detail
}  // namespace normplace
