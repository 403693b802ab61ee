// SPDX-License-Identifier: BSD-3-Clause
//
// Attention of exchangeable tokens that all see each other: every covariance is one of three numbers, q = K_ii, c
// within a sequence, e across sequences. The scores of a query are then a common part, which the softmax does not see,
// and n independent N(0, v), v = s_q s_k q (q - c); those of two queries correlate by r = c/q. With the moments of such
// a softmax (softmax_moments.hpp) everything below is exact for Gaussian scores.
#pragma once

#include <normplace/analysis/attention_moments.hpp>

namespace normplace::detail {

/// Heads' output / s_v: q' = m2 q + (1 - m2) c, c' = ov q + (1 - ov) c, e' = e.
inline void attend_exchangeable(const TokenLayout& layout, const AttentionScales& scales, const TokenKernel& input,
                                SoftmaxTable& table, AttentionState& state) {
    const double q = input[0], c = input[1], e = input[2], n = static_cast<double>(layout.sequence());
    state.score_variance = n > 1.0 ? scales.query * scales.key * q * std::fmax(q - c, 0.0) : 0.0;
    state.softmax.assign(1, table.at(n, state.score_variance, scales.head_width()));
    const SoftmaxMoments& softmax = state.softmax[0];
    const double m2 = softmax.concentration, overlap = softmax.overlap(q > 0.0 ? c / q : 0.0);
    state.heads = {scales.value * (c + m2 * (q - c)), scales.value * (c + overlap * (q - c)), scales.value * e};
    const double spread = q - c, response = n > 1.0 && q > 0.0 ? softmax.response_overlap(c / q) : 0.0;
    state.following = {0.0, scales.value * scales.query * scales.key * spread * spread * response, 0.0};
}

/// From the gradient of the heads' output (g, gc, ge), with ov and its derivative at r:
///   value  g' = m2 g + (n-1) ov gc;  gc' = (1 - m2) g/(n-1) + (1 - ov) gc;  ge' = ge
///   query  (q_v - c_v)(q_k - c_k) times g response, gc response_overlap, 0
///   key    g (q_v - c_v) q_q response + (n-1) gc (q_v - c_v) c_q response_overlap, and minus that over n-1 between
///   keys
/// The key's responses are times q.q'/K of the two queries (SoftmaxMoments). Of pairs, W_q and the key also get what
/// the fluctuating covariance of two queries and the response with it leave.
inline TokenKernel attend_exchangeable_backward(const TokenLayout& layout, const AttentionScales& scales,
                                                const TokenKernel& input, const AttentionState& state,
                                                const TokenKernel& heads_gradient, AttentionSquares& squares) {
    const double q = input[0], c = input[1], n = static_cast<double>(layout.sequence());
    const double g = heads_gradient[0], gc = heads_gradient[1], ge = heads_gradient[2];
    const SoftmaxMoments& softmax = state.softmax[0];
    const double r = q > 0.0 ? c / q : 0.0, m2 = softmax.concentration, overlap = softmax.overlap(r);
    const double others = n > 1.0 ? n - 1.0 : 1.0;  // no pairs to share among when n = 1
    const double unit = n > 1.0 ? (n - 1.0) / (n * n) : 0.0, spread = q - c;
    const SoftmaxMoments::Ratios ratios = softmax.ratios();
    const SoftmaxMoments::Ratios::Values same = ratios.at(1.0), different = ratios.at(r);
    // The covariance of two queries' tokens fluctuates from pair to pair, and their responses with it.
    const double fluctuating = q > 0.0 ? unit * different.slope * state.pair_variance * spread * spread / q : 0.0;
    const TokenKernel value{m2 * g + (n - 1.0) * overlap * gc, (1.0 - m2) * g / others + (1.0 - overlap) * gc, ge};
    const double to_query = scales.value * scales.key * spread * spread;
    const TokenKernel query{to_query * g * unit * same.response, to_query * gc * unit * different.response, 0.0};
    const double to_key = scales.value * scales.query * spread *
                          (g * q * unit * same.key + (n - 1.0) * gc * (q * unit * different.key + fluctuating));
    const TokenKernel key{to_key, -to_key / others, 0.0};

    const double entries = scales.width * scales.width;
    squares.wv = entries * layout.inner(value, input);
    squares.wq = entries * (layout.inner(query, input) + layout.tokens() * (n - 1.0) * to_query * gc * fluctuating);
    squares.wk = entries * layout.inner(key, input);
    squares.bv = scales.width * layout.total(value);
    squares.bq = scales.width * layout.total(query);
    TokenKernel gradient(3);
    for (std::size_t i = 0; i < 3; ++i)
        gradient[i] = scales.value * value[i] + scales.query * query[i] + scales.key * key[i];
    return gradient;
}

}  // namespace normplace::detail
